"""The storage behind FILES_URL. A module of its own: who keeps files on disk does not load Amazon's library."""

from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

from boto3.exceptions import Boto3Error
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from storages.backends.s3 import S3Storage

# A worker waits for its upload to be confirmed, and a page for nothing at all: better an error than a long silence.
_CONFIG = Config(connect_timeout=5, read_timeout=30, retries={"max_attempts": 3, "mode": "standard"})


class Files(S3Storage):  # type: ignore[misc]  # django-storages ships no types
    """Result files in a bucket that is nobody's to look at but through signed addresses."""

    def __init__(self, **options: Any) -> None:
        config = _CONFIG.merge(
            Config(signature_version=options["signature_version"], s3={"addressing_style": options["addressing_style"]})
        )
        super().__init__(**options, client_config=config)

    def signed_address(self, name: str, *, content_type: str, disposition: str, for_s: int) -> str:
        """An address that shows this one file, as this type and in this manner, for so many seconds. Type and manner
        are part of what is signed, so what a worker uploaded as a page is still only saved."""
        forced = {"ResponseContentType": content_type, "ResponseContentDisposition": disposition}
        address: str = self.url(name, parameters=forced, expire=for_s)
        return address

    def delete(self, name: str) -> None:
        """Delete a file; one that is gone already is no error. Raises OSError, as a disk does."""
        try:
            super().delete(name)
        except (BotoCoreError, ClientError) as error:
            raise OSError(f"the file {name} could not be deleted: {error}") from error

    def names_below(self, folder: str) -> Iterator[str]:
        """The names of all files in a folder and those in it, a thousand by one request, and not one folder."""
        prefix = f"{self._key(folder)}/"
        for stored in self.bucket.objects.filter(Prefix=prefix):
            yield f"{folder}/{stored.key.removeprefix(prefix)}"

    def download(self, name: str, path: Path) -> None:
        """Copy a file to a disk, in parts. One that is not there is left out. Raises OSError."""
        try:
            self.bucket.download_file(self._key(name), str(path))
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != HTTPStatus.NOT_FOUND:
                raise OSError(f"the file {name} could not be fetched: {error}") from error
        except (BotoCoreError, Boto3Error) as error:
            raise OSError(f"the file {name} could not be fetched: {error}") from error

    def upload(self, path: Path, name: str) -> None:
        """Copy a file of a disk here, in parts, under exactly this name. Raises OSError."""
        try:
            self.bucket.upload_file(str(path), self._key(name))
        except (BotoCoreError, Boto3Error, ClientError) as error:
            raise OSError(f"the file {name} could not be stored: {error}") from error

    def _key(self, name: str) -> str:
        return str(self._normalize_name(name))

    def complaint(self) -> str | None:
        """Why the bucket cannot be used now; None if it answers."""
        try:
            self.bucket.meta.client.head_bucket(Bucket=self.bucket.name)
        except (BotoCoreError, ClientError) as error:
            return str(error)
        return None
