package connect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
)

// reread is how often the kubeconfig file is read. The kubelet takes a minute or so to update a changed Secret in a volume.
const reread = 10 * time.Second

// Connection is a member agent's connection to its hub: a kubeconfig file whose token is renewed without a restart.
type Connection struct {
	path   string
	config *rest.Config

	mu         sync.Mutex
	kubeconfig []byte    // with the token in use
	read       []byte    // as the file was when last read
	token      string    // the one in use; empty if the kubeconfig authenticates in another way
	issued     time.Time // when it was issued, by the clock of this process
	refused    time.Time // since when the hub has rejected it; zero: it doesn't
}

// Await returns once the kubeconfig file exists, or ctx has ended.
func Await(ctx context.Context, path string) {
	const look = 2 * time.Second // the kubelet takes a minute or so to mount a new Secret
	_ = wait.PollUntilContextCancel(ctx, look, true, func(context.Context) (bool, error) {
		_, err := os.Stat(path)
		return !errors.Is(err, os.ErrNotExist), nil
	})
}

// Open reads the kubeconfig file.
func Open(path string) (*Connection, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no hub kubeconfig at %s; `clusterset join` makes one", path)
	}
	if err != nil {
		return nil, fmt.Errorf("read hub kubeconfig: %w", err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return nil, fmt.Errorf("hub kubeconfig %s can't be used: %w; `clusterset join --rejoin` makes one", path, err)
	}
	registerMetrics()
	c := &Connection{path: path, config: config, read: content}
	c.use(config.BearerToken, content, issuedHere(config.BearerToken))
	if c.token != "" && config.BearerTokenFile == "" {
		config.BearerToken = ""
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &bearer{c, next} })
	}
	return c, nil
}

// Config returns a client configuration that always uses the current token.
func (c *Connection) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Cluster returns the member that the kubeconfig was made for, by its namespace, or "" if it has none.
func (c *Connection) Cluster() string {
	_, kubeconfig := c.current()
	config, err := clientcmd.NewClientConfigFromBytes(kubeconfig)
	if err != nil {
		return ""
	}
	namespace, _, _ := config.Namespace()
	cluster, _ := api.ClusterOfNamespace(namespace)
	return cluster
}

// current returns the token in use and its kubeconfig.
func (c *Connection) current() (token string, kubeconfig []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token, c.kubeconfig
}

// adopt starts using a token that this process has just requested.
func (c *Connection) adopt(token string, kubeconfig []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.use(token, kubeconfig, time.Now())
}

// use starts using a token. The caller has locked c.
func (c *Connection) use(token string, kubeconfig []byte, issued time.Time) {
	c.token, c.kubeconfig, c.issued, c.refused = token, kubeconfig, issued, time.Time{}
	showToken(token)
}

// Watch follows the file until ctx ends: another replica of the agent, or a new join, may have written a new token. It returns an error if
// more than the token has changed, which needs a restart.
func (c *Connection) Watch(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, reread, false, func(ctx context.Context) (bool, error) { return false, c.reload(ctx) })
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it was told to stop
	}
	return err
}

// reload reads the file again. An error is only logged: the file may be in the middle of being replaced.
func (c *Connection) reload(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("hub-kubeconfig")
	content, err := os.ReadFile(c.path)
	if err != nil {
		logger.Error(err, "Can't read the hub kubeconfig, using the previous one")
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if bytes.Equal(content, c.read) {
		return nil
	}
	c.read = content // what is wrong with it is logged once
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		logger.Error(err, "Can't use the hub kubeconfig, using the previous one")
		return nil
	}
	if !sameButToken(c.kubeconfig, content) {
		return fmt.Errorf("hub kubeconfig %s differs in more than its token now; restart to use it", c.path)
	}
	if config.BearerToken != c.token {
		logger.Info("Using the new token of the hub kubeconfig")
		c.use(config.BearerToken, content, issuedHere(config.BearerToken))
	}
	return nil
}

// answered records whether the hub accepts a token. It doesn't if the token has expired, because no agent renewed it, or if its account was
// deleted; this is logged once.
func (c *Connection) answered(token string, accepts bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case token != c.token: // it has been replaced meanwhile
	case accepts:
		c.refused = time.Time{}
	case c.refused.IsZero():
		c.refused = time.Now()
		why := "it has been revoked, or belongs to another hub"
		if end := Expires(token); !end.IsZero() && !c.refused.Before(end) {
			why = "it expired at " + end.UTC().Format(time.RFC3339)
		}
		log.Log.WithName("hub-kubeconfig").Error(errNotAccepted, "Names stay answered as they are. An administrator of the hub makes new credentials with clusterset join --rejoin; no restart is needed",
			"why", why, "kubeconfig", c.path)
	}
}

// Refused returns since when the hub has rejected the token in use, zero if it accepts it. Watches that were open by then go on for minutes.
func (c *Connection) Refused() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

// due reports whether half of the lifetime of the token in use is over.
func (c *Connection) due() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	is, ok := parseToken(c.token)
	return ok && time.Since(c.issued) >= is.lifetime()/2
}

var errNotAccepted = errors.New("the hub doesn't accept this member's token")

// bearer adds the current token to each request. client-go's own handling fixes the token when the client is created, so a
// member would be cut off when it expires.
type bearer struct {
	connection *Connection
	next       http.RoundTripper
}

// RoundTrip implements http.RoundTripper, which must not change the request it is given.
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	token, _ := b.connection.current()
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	reply, err := b.next.RoundTrip(r)
	if err == nil {
		b.connection.answered(token, reply.StatusCode != http.StatusUnauthorized)
	}
	return reply, err
}

// WrappedRoundTripper lets client-go find the transport below, to close its idle connections.
func (b *bearer) WrappedRoundTripper() http.RoundTripper { return b.next }
