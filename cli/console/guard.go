package console

import (
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"sync/atomic"
)

// guard admits only the user who started the console. Other pages can't use it, under any host name, nor can other accounts of the
// machine without the secret.
type guard struct {
	// session is the value of the cookie. token is exchanged for it, and so is once, which works a single time: the browser gets it as an
	// argument, which other accounts of the machine can read.
	session, token, once string
	spent                *atomic.Bool
}

func newGuard() guard { return guard{rand.Text(), rand.Text(), rand.Text(), new(atomic.Bool)} }

// Token returns what begins a session, as the parameter token of the first address. It can be used any number of times.
func (s *Server) Token() string { return s.guard.token }

// Once returns a token that can be used a single time.
func (s *Server) Once() string { return s.guard.once }

// policy allows the page its own files and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// protect passes on requests of a session.
func (g guard) protect(address string, next http.Handler) http.Handler {
	_, port, _ := net.SplitHostPort(address)
	cookie := "clusterset-console-" + port // a browser sends a host's cookies to all its ports
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
		session, err := r.Cookie(cookie)
		switch {
		case r.Host != "127.0.0.1:"+port && r.Host != "localhost:"+port: // another name for this address belongs to a foreign page (DNS rebinding)
			http.Error(w, "the clusterset console is at another address; open the one that it printed", http.StatusMisdirectedRequest)
		case origin != "" && origin != "http://"+r.Host, site != "" && site != "same-origin" && site != "none":
			http.Error(w, "the clusterset console answers only its own page. To open it from elsewhere, copy the address into the browser", http.StatusForbidden)
		case r.URL.Path == "/" && g.accepts(r.URL.Query().Get("token")):
			http.SetCookie(w, &http.Cookie{Name: cookie, Value: g.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
			http.Redirect(w, r, "/", http.StatusSeeOther) // the token stays out of the browser's history
		case err != nil || !equal(session.Value, g.session):
			http.Error(w, "Open the address that clusterset console printed. It begins a session in this browser.", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// accepts reports whether the token begins a session.
func (g guard) accepts(token string) bool {
	return equal(token, g.token) || equal(token, g.once) && g.spent.CompareAndSwap(false, true)
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
