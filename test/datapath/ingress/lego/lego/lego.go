package lego

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"time"

	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/certificate"
	"github.com/go-acme/lego/v5/challenge"
	"github.com/go-acme/lego/v5/challenge/dns01"
	"github.com/go-acme/lego/v5/challenge/http01"
	"github.com/go-acme/lego/v5/challenge/tlsalpn01"
	"github.com/go-acme/lego/v5/registration"
)

const DirectoryURLLetsEncrypt = ""

type Config struct {
	CADirURL, UserAgent string
	HTTPClient          *http.Client
	Certificate         struct{ Timeout time.Duration }
}

type Client struct {
	Challenge    challenges
	Certificate  certificates
	Registration registrations
}

type (
	challenges    struct{}
	certificates  struct{}
	registrations struct{}
)

func NewConfig(any) *Config                                 { return &Config{} }
func NewClient(*Config) (*Client, error)                    { return nil, errors.ErrUnsupported }
func CreateCertPool([]string, bool) (*x509.CertPool, error) { return nil, errors.ErrUnsupported }

func (challenges) SetDNS01Provider(challenge.Provider, ...dns01.ChallengeOption) error {
	return errors.ErrUnsupported
}

func (challenges) SetHTTP01Provider(challenge.Provider, ...http01.ChallengeOption) error {
	return errors.ErrUnsupported
}

func (challenges) SetTLSALPN01Provider(challenge.Provider, ...tlsalpn01.ChallengeOption) error {
	return errors.ErrUnsupported
}

func (certificates) Obtain(context.Context, certificate.ObtainRequest) (*certificate.Resource, error) {
	return nil, errors.ErrUnsupported
}

func (certificates) Renew(context.Context, certificate.Resource, *certificate.RenewOptions) (*certificate.Resource, error) {
	return nil, errors.ErrUnsupported
}

func (registrations) Register(context.Context, registration.RegisterOptions) (*acme.ExtendedAccount, error) {
	return nil, errors.ErrUnsupported
}

func (registrations) RegisterWithExternalAccountBinding(context.Context, registration.RegisterEABOptions) (*acme.ExtendedAccount, error) {
	return nil, errors.ErrUnsupported
}
