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
	at, check := fmt.Sprintf("the %s at %s ", c.What, c.Server), "check "+c.Flags
	var certificate *tls.CertificateVerificationError
	switch {
	case NotServed(err):
		part := map[bool]string{true: "hub", false: "member"}[c.What == "hub"]
		return &Error{at + "doesn't have the kinds that a " + part + " has: it isn't one", check + ": is it the right context? If so, clusterset join --install-crds makes it one", err}
	case apierrors.IsForbidden(err):
		return &Error{at + "refuses: " + oneLine(err), cmp.Or(c.Rights, "ask for the right, or use another account; clusterset doctor lists what is needed"), err}
	case apierrors.IsUnauthorized(err):
		return &Error{at + "doesn't accept these credentials", "log in again, or " + check, err}
	case errors.As(err, &certificate):
		return &Error{at + "can't be trusted: " + certificate.Err.Error(), check + ", whose certificate authority isn't this server's", err}
	case unreachable(err):
		return &Error{at + "can't be reached: " + cause(err), check + ", and the network between", err}
	}
	return err
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
		return oneLine(u.Err)
	}
	return oneLine(err)
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
