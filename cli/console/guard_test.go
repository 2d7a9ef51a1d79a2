package console

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const address = "127.0.0.1:8080"

// ask sends a request to a console, with a session unless change removes it.
func ask(t testing.TB, s *Server, target string, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	r.Host = address
	r.AddCookie(&http.Cookie{Name: "clusterset-console-8080", Value: s.guard.session})
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	s.Handler(address).ServeHTTP(w, r)
	return w
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func TestOnlyTheOwnPageIsAnswered(t *testing.T) {
	s := New(Options{})
	for name, c := range map[string]struct {
		target string
		change func(*http.Request)
		want   int
	}{
		"the page":                       {"/", nil, 200},
		"data":                           {"/api/map", nil, 200},
		"by the name localhost":          {"/api/map", func(r *http.Request) { r.Host = "localhost:8080" }, 200},
		"by a name that leads here":      {"/api/map", func(r *http.Request) { r.Host = "evil.example:8080" }, 421},
		"at another port":                {"/api/map", func(r *http.Request) { r.Host = "127.0.0.1:8081" }, 421},
		"without a host":                 {"/api/map", func(r *http.Request) { r.Host = "" }, 421},
		"from its own page":              {"/api/map", header("Origin", "http://"+address), 200},
		"from another page":              {"/api/map", header("Origin", "http://evil.example"), 403},
		"from the own name by TLS":       {"/api/map", header("Origin", "https://"+address), 403},
		"from a page without an origin":  {"/api/map", header("Origin", "null"), 403},
		"typed":                          {"/", header("Sec-Fetch-Site", "none"), 200},
		"cross-site":                     {"/", header("Sec-Fetch-Site", "cross-site"), 403},
		"token, from another page":       {"/?token=" + s.Token(), header("Sec-Fetch-Site", "cross-site"), 403},
		"POST":                           {"/api/map", func(r *http.Request) { r.Method = http.MethodPost }, 405},
		"no session":                     {"/api/map", func(r *http.Request) { r.Header.Del("Cookie") }, 401},
		"another session":                {"/api/map", header("Cookie", "clusterset-console-8080=x"), 401},
		"the session of another port":    {"/api/map", header("Cookie", "clusterset-console-8081="+s.guard.session), 401},
		"a wrong token":                  {"/?token=x", func(r *http.Request) { r.Header.Del("Cookie") }, 401},
		"the token elsewhere":            {"/api/map?token=" + s.Token(), func(r *http.Request) { r.Header.Del("Cookie") }, 401},
		"no such file":                   {"/nothing.js", nil, 404},
		"a file outside, encoded":        {"/%2e%2e/guard.go", nil, 404},
		"no such data":                   {"/api/secrets", nil, 404},
		"a change of an unknown kind":    {`/api/map?changes=[{"destroy":["a"]}]`, nil, 400},
		"a change of an unknown cluster": {`/api/map?changes=[{"drain":["a"]}]`, nil, 400},
		"an export without a context":    {`/api/map?changes=[{"export":{"service":"a/b","from":"c"}}]`, nil, 400},
		"a service without a name":       {"/api/service?service=web", nil, 400},
		"a service that nobody exports":  {"/api/service?service=shop/web", nil, 400},
		"a what-if without changes":      {"/api/whatif", nil, 400},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, s, c.target, c.change)
			if got.Code != c.want {
				t.Errorf("%s: status %d, want %d", c.target, got.Code, c.want)
			}
			for name, want := range map[string]string{
				"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
				"Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin",
			} {
				if got.Header().Get(name) != want && c.want != http.StatusNotFound {
					t.Errorf("%s: %s is %q", c.target, name, got.Header().Get(name))
				}
			}
			if got.Header().Get("Set-Cookie") != "" {
				t.Errorf("%s begins a session", c.target)
			}
			if strings.HasPrefix(c.target, "/api/") && (c.want == 200 || c.want == 400) && got.Header().Get("Content-Type") != "application/json; charset=utf-8" {
				t.Errorf("%s: type %q", c.target, got.Header().Get("Content-Type"))
			}
		})
	}
}

func TestATokenBeginsASession(t *testing.T) {
	s := New(Options{})
	exchange := func(token string) *httptest.ResponseRecorder {
		return ask(t, s, "/?token="+token, func(r *http.Request) { r.Header.Del("Cookie") })
	}
	for _, token := range []string{s.Token(), s.Token(), s.Once()} {
		got := exchange(token)
		if got.Code != http.StatusSeeOther || got.Header().Get("Location") != "/" || len(got.Header().Values("Set-Cookie")) != 1 {
			t.Fatalf("status %d, %v", got.Code, got.Header())
		}
		c, err := http.ParseSetCookie(got.Header().Get("Set-Cookie"))
		if err != nil {
			t.Fatal(err)
		}
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 0 || !c.Expires.IsZero() {
			t.Errorf("the cookie is %v; want one of the session, for this host and its own pages alone", c)
		}
		if got := ask(t, s, "/", func(r *http.Request) { r.Header.Set("Cookie", c.Name+"="+c.Value) }); got.Code != http.StatusOK {
			t.Errorf("with the cookie: status %d", got.Code)
		}
	}
	if got := exchange(s.Once()); got.Code != http.StatusUnauthorized {
		t.Errorf("the token for one time, again: status %d", got.Code)
	}
	if other := New(Options{}); other.Token() == s.Token() || other.guard.session == s.guard.session || len(s.Token()) < 26 {
		t.Error("tokens can be guessed")
	}
}
