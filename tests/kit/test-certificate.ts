// A certificate for localhost and 127.0.0.1, used nowhere else, valid for a hundred years.
/** Its private key. */
export const certificateKey = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgHhcqF99oxx2j4xox
rxxUsea+VXef1Te81DXOSaYoUQ+hRANCAAQBkkcGp+xI1seCNHZLRJSmnN79zcAI
mg5132Owvx2aD2lEXNKXWyr6+l2PuFL5m0I358AiLXm3K+kHubtLu9Sk
-----END PRIVATE KEY-----
`;
/** The certificate, self-signed: it is its own authority. */
export const certificate = `-----BEGIN CERTIFICATE-----
MIIBmjCCAUGgAwIBAgIUQZDkpRMWRs2/cm958KOUVaFnKdwwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMTEzMTkxNloYDzIxMjYxMDI4
MTMxOTE2WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQBkkcGp+xI1seCNHZLRJSmnN79zcAImg5132Owvx2aD2lEXNKXWyr6
+l2PuFL5m0I358AiLXm3K+kHubtLu9Sko28wbTAdBgNVHQ4EFgQUk/s23asCwVIt
quNAOrekKx3rD6EwHwYDVR0jBBgwFoAUk/s23asCwVItquNAOrekKx3rD6EwDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDRwAwRAIgXoehDTwOnBpvzNV3WFISBsvZr/gk1vF1Px8fAfxXHrcCIFrT
mILgujx+/Ch5aDMYmhqElcYzlnH998pJDZyht4Gu
-----END CERTIFICATE-----
`;
