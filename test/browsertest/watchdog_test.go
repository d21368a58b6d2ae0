package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestTheTabNoticesWhatNoPageMayDo makes sure that the other tests could fail.
func TestTheTabNoticesWhatNoPageMayDo(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer other.Close()
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/policy":
			w.Header().Set("Content-Security-Policy", "script-src 'none'")
			fmt.Fprint(w, `<main><img src=x onerror=pwned()><script>pwned()</script></main>`)
		case "/wide":
			fmt.Fprint(w, `<title>x</title><main><p>`+strings.Repeat("x", 500)+`</p><img src="data:,"></main>`)
		default:
			fmt.Fprintf(w, `<main><script>pwned(7); console.error('broken'); fetch('%s/away', {mode: 'no-cors'}); setTimeout(() => { throw new Error('thrown'); })</script></main>`, other.URL)
		}
	}))
	defer bad.Close()
	b := open(t, bad.URL)
	hears := func(what string) {
		t.Helper()
		b.until(what+" is noticed", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return strings.Contains(strings.Join(b.wrong, "\n"), what)
		})
	}
	b.visit("/")
	for _, what := range []string{
		"script ran: pwned(7)", "console error (): broken", "request that leaves the server: " + other.URL,
		"thrown",
	} {
		hears(what)
	}
	b.visit("/policy")
	hears("policy violation: script-src")
	b.visit("/wide")
	b.resize(phone)
	if b.overflow() == "" {
		t.Error("a wide page is not noticed")
	}
	if len(b.axe(allRules)) == 0 {
		t.Error("axe finds nothing")
	}
	b.mu.Lock()
	b.wrong = nil
	b.mu.Unlock()
}
