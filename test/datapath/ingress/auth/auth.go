package auth

import "net/http"

type BasicAuth struct {
	Realm   string
	Secrets func(user, realm string) string
}

type DigestAuth struct{}

func CheckSecret(string, string) bool { return false }

func NewDigestAuthenticator(string, func(user, realm string) string) *DigestAuth {
	return &DigestAuth{}
}

func DigestAuthParams(string) map[string]string { return nil }

func (*DigestAuth) CheckAuth(*http.Request) (string, *string) { return "", nil }

func (*BasicAuth) RequireAuth(w http.ResponseWriter, _ *http.Request) { refuse(w) }

func (*DigestAuth) RequireAuth(w http.ResponseWriter, _ *http.Request) { refuse(w) }

func (*DigestAuth) RequireAuthStale(w http.ResponseWriter, _ *http.Request) { refuse(w) }

func refuse(w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) }
