package objects

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Error is a failure to talk to a cluster: what happened, and what the user can do about it.
type Error struct {
	Did  string
	Cure string
	Err  error
}

func (e *Error) Error() string { return e.Did + "; " + e.Cure }
func (e *Error) Unwrap() error { return e.Err }

// Words says what an error of the cluster's API server means for the user. It takes the error of a request, as the client returns
// it.
func (c *Cluster) Words(err error) error {
	if err = c.Explain(err); err == nil || errors.As(err, new(*Error)) {
		return err
	}
	return &Error{Did: fmt.Sprintf("the %s at %s: %s", c.What, c.Server, oneLine(err)), Cure: "check " + c.Flags, Err: err}
}

// Explain is Words for an error that is already wrapped: it stays as it is, unless the API server doesn't know the kind, refuses the
// request, or can't be reached or trusted.
func (c *Cluster) Explain(err error) error {
	if err == nil || errors.As(err, new(*Error)) {
		return err
	}
	if did, cure, ok := c.known(err); ok {
		return &Error{Did: did, Cure: cure, Err: err}
	}
	return err
}

func (c *Cluster) known(err error) (did, cure string, ok bool) {
	at := fmt.Sprintf("the %s at %s", c.What, c.Server)
	check := "check " + c.Flags
	var certificate *tls.CertificateVerificationError
	switch {
	case NotServed(err):
		part := map[bool]string{true: "hub", false: "member"}[c.What == "hub"]
		return fmt.Sprintf("%s doesn't have the kinds that a %s has: it isn't one", at, part), check + ": is it the right context? If so, clusterset join --install-crds makes it one", true
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("%s refuses: %s", at, oneLine(err)), cmp.Or(c.Rights, "ask for the right, or use another account; clusterset doctor lists what is needed"), true
	case apierrors.IsUnauthorized(err):
		return at + " doesn't accept these credentials", "log in again, or " + check, true
	case errors.As(err, &certificate):
		return fmt.Sprintf("%s can't be trusted: %v", at, certificate.Err), check + ", whose certificate authority isn't this server's", true
	case unreachable(err):
		return fmt.Sprintf("%s can't be reached: %s", at, cause(err)), check + ", and the network between", true
	}
	return "", "", false
}

func unreachable(err error) bool {
	var u *url.Error
	return errors.As(err, &u) || errors.As(err, new(net.Error)) || errors.Is(err, context.DeadlineExceeded)
}

// cause leaves out the request, which means nothing to a user.
func cause(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	var u *url.Error
	switch {
	case errors.As(err, &dns):
		return "no such host " + dns.Name
	case errors.As(err, &op):
		return op.Err.Error()
	case errors.As(err, &u) && u.Timeout() || errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &u):
		return strings.ReplaceAll(u.Err.Error(), "\n", " ")
	}
	return oneLine(err)
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
