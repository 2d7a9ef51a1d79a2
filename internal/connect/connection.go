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

// reread is how often the kubeconfig file is read. The kubelet takes a minute or so to update a changed Secret in a volume, so
// there is no point in reading more often.
const reread = 30 * time.Second

// Connection is a member agent's connection to its hub: a kubeconfig file whose token is renewed without a restart.
type Connection struct {
	path   string
	config *rest.Config

	mu         sync.Mutex
	kubeconfig []byte    // with the token in use
	read       []byte    // as the file was when last read
	token      string    // empty if the kubeconfig authenticates in another way
	refused    string    // the token that the hub rejected, once that has been logged, and at
	refusedAt  time.Time // this time
	since      time.Time // when this process began to use the token
	ours       bool      // whether it requested the token itself
	date       time.Time // the hub's clock when it last replied, at
	at         time.Time // this time of the local clock

	refusals chan struct{} // has an element when the hub has just rejected the token in use
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
	c := &Connection{
		path: path, config: config, kubeconfig: content, read: content, token: config.BearerToken, since: time.Now(),
		refusals: make(chan struct{}, 1),
	}
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
	config, err := clientcmd.Load(kubeconfig)
	if err != nil || config.Contexts[config.CurrentContext] == nil {
		return ""
	}
	cluster, _ := api.ClusterOfNamespace(config.Contexts[config.CurrentContext].Namespace)
	return cluster
}

// current returns the token in use and its kubeconfig.
func (c *Connection) current() (token string, kubeconfig []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token, c.kubeconfig
}

// adopt starts using a renewed token.
func (c *Connection) adopt(token string, kubeconfig []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token, c.kubeconfig, c.since, c.ours = token, kubeconfig, time.Now(), true
	showToken(token)
}

// Watch follows the file until ctx ends: another replica of the agent, or a new join, may have written a new token. If the hub
// rejects the token in use, Watch reads the file at once. It returns an error if more than the token has changed, which needs a
// restart.
func (c *Connection) Watch(ctx context.Context) error {
	registerMetrics()
	token, _ := c.current()
	showToken(token)
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
	if what := differs(c.kubeconfig, content); what != "" {
		return fmt.Errorf("hub kubeconfig %s has another %s now; restart to use it", c.path, what)
	}
	is, isToken := parseToken(config.BearerToken)
	was, wasToken := parseToken(c.token)
	if isToken && wasToken && is.Issued <= was.Issued && c.token != c.refused { // the volume is older than our renewed token
		c.read = nil // or the hub was restored to that time, and is about to refuse ours
		return nil
	}
	if config.BearerToken != c.token {
		logger.Info("Using the new token of the hub kubeconfig")
		c.token, c.kubeconfig, c.since, c.ours = config.BearerToken, content, time.Now(), false
		showToken(c.token)
	}
	return nil
}

// notAccepted is called for a token that the hub answered with 401: it has expired, because no agent renewed it, or its account
// was deleted. It logs this once per token.
func (c *Connection) notAccepted(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token != c.token { // it has been replaced meanwhile
		return
	}
	select {
	case c.refusals <- struct{}{}:
	default:
	}
	if token == c.refused {
		return
	}
	c.refused, c.refusedAt = token, time.Now()
	why := "it has been revoked, or belongs to another hub"
	if is, ok := parseToken(token); ok && !c.hubTime().Before(is.expires()) {
		why = "it expired at " + is.expires().UTC().Format(time.RFC3339)
	}
	log.Log.WithName("hub-kubeconfig").Error(errNotAccepted, "Names stay answered as they are. An administrator of the hub makes new credentials with clusterset join --rejoin; no restart is needed",
		"why", why, "kubeconfig", c.path)
}

// accepted is called for a token that the hub answered with something else.
func (c *Connection) accepted(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token == c.refused {
		c.refused, c.refusedAt = "", time.Time{}
	}
}

// Refused returns since when the hub has rejected the token in use, zero if it accepts it. Watches that were open by then go on for minutes.
func (c *Connection) Refused() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused != c.token {
		return time.Time{}
	}
	return c.refusedAt
}

// heard records the hub's clock from a reply's header Date.
func (c *Connection) heard(header string) {
	date, err := http.ParseTime(header)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.date, c.at = date, time.Now()
}

// hubTime returns the time by the hub's clock, or zero before its first reply. The caller has locked c.
func (c *Connection) hubTime() time.Time {
	if c.date.IsZero() {
		return time.Time{}
	}
	return c.date.Add(time.Since(c.at))
}

// due reports whether half of the lifetime of the token in use is over. known is false if that can't be told yet.
//
// The token's times are the hub's, so the hub's clock is compared with them, never this cluster's, which may be wrong by more than the
// lifetime. Only durations are measured here: in case a proxy between replies with a wrong date, a token that this process has used for
// half of its lifetime is due, and one that it has just requested isn't.
func (c *Connection) due() (due, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	is, ok := parseToken(c.token)
	if !ok {
		return false, true
	}
	half, used, now := is.lifetime()/2, time.Since(c.since), c.hubTime()
	switch {
	case used >= half:
		return true, true
	case c.ours && used < half/2:
		return false, true
	case now.IsZero():
		return false, false
	}
	return !now.Before(is.issued().Add(half)), true
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
		b.connection.heard(reply.Header.Get("Date"))
	}
	if err == nil && reply.StatusCode == http.StatusUnauthorized {
		b.connection.notAccepted(token)
	} else if err == nil {
		b.connection.accepted(token)
	}
	return reply, err
}

// WrappedRoundTripper lets client-go find the transport below, to close its idle connections.
func (b *bearer) WrappedRoundTripper() http.RoundTripper { return b.next }
