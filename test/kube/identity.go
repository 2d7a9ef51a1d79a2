package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Authority is a certificate authority. The control plane's own signs the API server's certificate and its clients': a client certificate's
// common name is the user, its organizations are the groups.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// NewAuthority makes an authority with a key of its own.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate CA key: %w", err)
	}
	cert, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "clusterset-test"}, key)
	if err != nil {
		return nil, fmt.Errorf("make CA certificate: %w", err)
	}
	return &Authority{cert: cert, key: key, pem: encodePEM(cert.Raw)}, nil
}

// client issues a certificate that authenticates as user, in groups.
func (a *Authority) client(user string, groups ...string) (cert, key []byte, err error) {
	template := certificate(pkix.Name{CommonName: user, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// CertificateFor issues a certificate with these names and addresses, for servers and clients alike. It returns PEM, the authority's own
// certificate included.
func (a *Authority) CertificateFor(names ...string) (ca, cert, key []byte, err error) {
	template := certificate(pkix.Name{CommonName: names[0]})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	cert, key, err = a.issue(template)
	return a.pem, cert, key, err
}

// WriteCertificate writes tls.crt and tls.key for a server at the loopback address into a directory, and returns a pool that trusts them.
func WriteCertificate(dir string) (*x509.CertPool, error) {
	a, err := NewAuthority()
	if err != nil {
		return nil, err
	}
	_, cert, key, err := a.CertificateFor("127.0.0.1")
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, "tls.crt"), cert, 0o600), os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool, err
}

func (a *Authority) issue(template *x509.Certificate) (cert, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate key of %s: %w", template.Subject.CommonName, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign certificate of %s: %w", template.Subject.CommonName, err)
	}
	keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key)
	return encodePEM(der), keyPEM, err
}

// certificate returns the fields that all certificates share. They are valid long enough for a demo that runs for a while, and start in the
// past, so that a clock that is a little slow doesn't reject them.
func certificate(subject pkix.Name) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func encodePEM(certificate []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: certificate})
}
