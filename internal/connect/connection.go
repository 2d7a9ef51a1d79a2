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

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
)

// reread is how often the kubeconfig file is looked at. The kubelet takes a minute or so to bring a changed Secret into a
// volume, so there is no point in doing it more often.
const reread = 30 * time.Second

// Connection is a member agent's way to its hub: a kubeconfig file whose token is exchanged as it ages, without a restart.
type Connection struct {
	path   string
	config *rest.Config

	mu         sync.Mutex
	kubeconfig []byte // with the token in use
	read       []byte // as the file was when last read
	token      string // empty where the kubeconfig authenticates by something else
	refused    string // the token that the hub didn't accept, once that has been said

	refusals chan struct{} // has an element when the hub has just refused the token in use
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
	c := &Connection{path: path, config: config, kubeconfig: content, read: content, token: config.BearerToken, refusals: make(chan struct{}, 1)}
	if c.token != "" && config.BearerTokenFile == "" {
		config.BearerToken = ""
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &bearer{c, next} })
	}
	return c, nil
}

// Config returns a client configuration that always uses the latest token.
func (c *Connection) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Cluster returns the member that the kubeconfig was made for, by its namespace; empty if it doesn't say.
func (c *Connection) Cluster() string {
	_, kubeconfig := c.current()
	config, err := clientcmd.Load(kubeconfig)
	if err != nil || config.Contexts[config.CurrentContext] == nil {
		return ""
	}
	cluster, _ := api.ClusterOfNamespace(config.Contexts[config.CurrentContext].Namespace)
	return cluster
}

// current returns the token in use and the kubeconfig that holds it.
func (c *Connection) current() (token string, kubeconfig []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token, c.kubeconfig
}

// adopt puts a renewed token to use.
func (c *Connection) adopt(token string, kubeconfig []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token, c.kubeconfig = token, kubeconfig
	metricTokenExpiry.Set(expirySeconds(token))
}

// Watch follows the file until ctx ends: another replica of the agent, or a new join, may have put a new token there. When the
// hub refuses the token in use it looks at once. It returns an error where the file names another hub, which takes a restart.
func (c *Connection) Watch(ctx context.Context) error {
	registerMetrics()
	token, _ := c.current()
	metricTokenExpiry.Set(expirySeconds(token))
	tick := time.NewTicker(reread)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-c.refusals:
		}
		if err := c.reload(ctx); err != nil {
			return err
		}
	}
}

// reload reads the file anew. One that can't be read is only logged: it may be in the middle of being replaced.
func (c *Connection) reload(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("hub-kubeconfig")
	content, err := os.ReadFile(c.path)
	if err != nil {
		logger.Error(err, "Can't read the hub kubeconfig, going on with what it said")
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if bytes.Equal(content, c.read) {
		return nil
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		logger.Error(err, "Can't use the hub kubeconfig, going on with what it said")
		return nil
	}
	if config.Host != c.config.Host || !bytes.Equal(config.CAData, c.config.CAData) || (config.BearerToken == "") != (c.token == "") {
		return fmt.Errorf("hub kubeconfig %s names another hub or user now; restart to use it", c.path)
	}
	c.read = content
	is, isToken := parseToken(config.BearerToken)
	was, wasToken := parseToken(c.token)
	if isToken && wasToken && is.Issued <= was.Issued && c.token != c.refused { // the volume is behind what we renewed
		return nil
	}
	if config.BearerToken != c.token {
		logger.Info("Using the new token of the hub kubeconfig")
		c.token, c.kubeconfig = config.BearerToken, content
		metricTokenExpiry.Set(expirySeconds(c.token))
	}
	return nil
}

// notAccepted is told of a token that the hub answered 401 to: it has expired, as while no agent ran to renew it, or the
// account behind it is gone. It says so once for each token.
func (c *Connection) notAccepted(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token != c.token { // it has been exchanged meanwhile
		return
	}
	select {
	case c.refusals <- struct{}{}:
	default:
	}
	if token == c.refused {
		return
	}
	c.refused = token
	why := "it has been revoked, or is of another hub"
	if is, ok := parseToken(token); ok && !time.Now().Before(is.expires()) {
		why = "it expired at " + is.expires().UTC().Format(time.RFC3339)
	}
	log.Log.WithName("hub-kubeconfig").Error(errNotAccepted, "Names stay answered as they are. An administrator of the hub makes new credentials with clusterset join --rejoin; no restart is needed",
		"why", why, "kubeconfig", c.path)
}

var errNotAccepted = errors.New("the hub doesn't accept this member's token")

// bearer adds the token of the moment to each request. client-go's own handling of a token fixes it when the client is
// made, and a member would be cut off when it expires.
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
	if err == nil && reply.StatusCode == http.StatusUnauthorized {
		b.connection.notAccepted(token)
	}
	return reply, err
}

// WrappedRoundTripper lets client-go find the transport below, to close its idle connections.
func (b *bearer) WrappedRoundTripper() http.RoundTripper { return b.next }
