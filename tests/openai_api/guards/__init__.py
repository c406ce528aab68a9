"""An app whose hooks decide about calls by words in them."""
