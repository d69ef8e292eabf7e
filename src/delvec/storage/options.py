"""Opens object stores by location, with options under the names that users know.

Names in upper or lower case are accepted, from three sources in this order of precedence:

    obstore and delta-rs    aws_access_key_id, AWS_ENDPOINT_URL, azure_storage_account_key, allow_http, …
    Hadoop and Spark        fs.s3a.access.key, spark.hadoop.fs.s3a.endpoint, fs.azure.account.key.<account>…
    the environment         AWS_*, AZURE_*, GOOGLE_*: obstore reads it itself

One mapping may serve several stores: options of other stores are ignored, and so are Hadoop's other ``fs.``
options. An unknown name is refused, because a misspelled key would otherwise cause a confusing access error.
"""

from __future__ import annotations

import difflib
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, MemoryStore, ObjectStore, S3Store

from delvec.errors import InvalidOperationError
from delvec.storage.hadoop import hadoop_config, is_hadoop_option


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


CLIENT_NAMES = _names(
    """allow_http allow_invalid_certificates connect_timeout default_content_type http1_only http2_only
    http2_keep_alive_interval http2_keep_alive_timeout http2_keep_alive_while_idle http2_max_frame_size
    pool_idle_timeout pool_max_idle_per_host proxy_url proxy_ca_certificate proxy_excludes randomize_addresses
    read_timeout timeout user_agent"""
)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The option names of one kind of store, and the prefixes that a name may have."""

    prefixes: tuple[str, ...]  # the longest first
    names: frozenset[str]

    def bare(self, name: str) -> str | None:
        """The name without its prefix; None if this kind of store does not have the option."""
        for prefix in (*self.prefixes, ""):
            rest = name.removeprefix(prefix)
            if name.startswith(prefix) and (rest in self.names or rest in CLIENT_NAMES):
                return rest
        return None


S3 = Vocabulary(
    ("aws_",),
    _names(
        """access_key_id secret_access_key session_token token region default_region endpoint endpoint_url
        endpoint_url_s3 virtual_hosted_style_request imdsv1_fallback metadata_endpoint unsigned_payload
        checksum_algorithm container_credentials_relative_uri container_credentials_full_uri
        container_authorization_token_file web_identity_token_file role_arn role_session_name endpoint_url_sts
        skip_signature copy_if_not_exists conditional_put disable_tagging disable_bulk_delete request_payer
        s3_express server_side_encryption sse_kms_key_id sse_bucket_key_enabled sse_customer_key_base64
        s3_allow_unsafe_rename"""
    ),
)
AZURE = Vocabulary(
    ("azure_storage_", "azure_"),
    _names(
        """account_name account_key access_key master_key client_id client_secret tenant_id authority_id
        authority_host sas_key sas_token token bearer_token use_emulator endpoint use_fabric_endpoint
        msi_endpoint identity_endpoint object_id msi_resource_id federated_token_file use_azure_cli
        skip_signature disable_tagging fabric_token_service_url fabric_workload_host fabric_session_token
        fabric_cluster_identifier"""
    ),
)
GOOGLE = Vocabulary(
    ("google_",),
    _names(
        """service_account service_account_path service_account_key application_credentials base_url
        bearer_token skip_signature"""
    ),
)
_VOCABULARIES = {"s3": S3, "gs": GOOGLE, "az": AZURE, "abfss": AZURE, "wasbs": AZURE}
_MEMORY: dict[str, MemoryStore] = {}
_MEMORY_LOCK = threading.Lock()


def open_store(location: str, options: Mapping[str, str]) -> ObjectStore:
    """The store of the location (not a local path). Sends no request.

    ``memory://name`` is one store per name in a process.
    """
    scheme, _, rest = location.partition("://")
    bucket, _, account = rest.partition("/")[0].partition("@")
    config = store_config(scheme, bucket, account, options, os.environ)
    try:
        if scheme == "memory":
            with _MEMORY_LOCK:
                return _MEMORY.setdefault(bucket, MemoryStore())
        if scheme == "s3":
            return S3Store(bucket, config=config)  # type: ignore[arg-type]
        if scheme == "gs":
            return GCSStore(bucket, config=config)  # type: ignore[arg-type]
        return AzureStore(bucket, config=config)  # type: ignore[arg-type]
    except (BaseError, ValueError) as error:
        reason = str(error).split("\n", 1)[0]
        raise InvalidOperationError(f"invalid storage options for {location}: {reason}") from error


def store_config(
    scheme: str, bucket: str, account: str, options: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, str]:
    """The configuration of a bucket, or of a container in an Azure account, in obstore's words."""
    hadoop = {}
    config = {}
    for option, value in options.items():
        name = option.lower().removeprefix("spark.hadoop.")
        if is_hadoop_option(name):
            hadoop[name] = str(value)
            continue
        _verify_known(option, name)
        vocabulary = _VOCABULARIES.get(scheme)
        bare = vocabulary.bare(name) if vocabulary else None
        if bare is not None:
            config[bare] = str(value)
    config = {**hadoop_config(scheme, bucket, account, hadoop), **config}
    if scheme == "s3":
        return _s3_config(config, environment)
    if account:
        config.setdefault("account_name", account.partition(".")[0])
        if account.endswith(".fabric.microsoft.com"):
            config.setdefault("use_fabric_endpoint", "true")
    return config


def _s3_config(config: dict[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    config.pop("s3_allow_unsafe_rename", None)  # an option of delta-rs for stores without conditional put
    endpoint_url = config.pop("endpoint_url_s3", None) or config.pop("endpoint_url", None)
    endpoint_url = endpoint_url or config.get("endpoint")
    endpoint = endpoint_url or _first(environment, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    defaults = {"conditional_put": "etag", "copy_if_not_exists": "multipart"}
    if endpoint:
        defaults["virtual_hosted_style_request"] = "false"
        if endpoint.lower().startswith("http://"):
            defaults["allow_http"] = "true"
    if endpoint_url:  # set both names: otherwise AWS_ENDPOINT_URL_S3 in the environment would take precedence
        config.pop("endpoint_url", None)
        config |= {"endpoint": endpoint_url, "aws_endpoint_url_s3": endpoint_url}
    unset = {name: value for name, value in defaults.items() if f"AWS_{name.upper()}" not in environment}
    return {**unset, **config}


def _verify_known(option: str, name: str) -> None:
    if any(vocabulary.bare(name) for vocabulary in (S3, AZURE, GOOGLE)):
        return
    allowed = [
        prefix + bare
        for vocabulary in (S3, AZURE, GOOGLE)
        for prefix in (*vocabulary.prefixes, "")
        for bare in (*vocabulary.names, *CLIENT_NAMES)
    ]
    nearest = difflib.get_close_matches(name, allowed, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    raise InvalidOperationError(f"unknown storage option {option!r}{hint}")


def _first(environment: Mapping[str, str], *names: str) -> str | None:
    return next((environment[name] for name in names if environment.get(name)), None)
