raise SystemExit("set SHOP_KEY")
