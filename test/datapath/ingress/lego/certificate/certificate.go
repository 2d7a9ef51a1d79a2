package certificate

import "github.com/go-acme/lego/v5/certcrypto"

type Resource struct {
	ID                      string
	Domains                 []string
	PrivateKey, Certificate []byte
}

type RenewOptions struct {
	Bundle                  bool
	EmailAddresses          []string
	Profile, PreferredChain string
	EnableCommonName        bool
}

type ObtainRequest struct {
	Domains                 []string
	Bundle                  bool
	EmailAddresses          []string
	Profile, PreferredChain string
	EnableCommonName        bool
	KeyType                 certcrypto.KeyType
}
