package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"sync"
	"time"

	"claudeops/internal/access"
	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const (
	// codeLifetime is how long a sign-in link works.
	codeLifetime = 10 * time.Minute
	// maxCodes bounds the links that wait to be used; the oldest is dropped.
	maxCodes = 32
)

// SignInCodes are the codes of sign-in links: each works once, within ten minutes. Only digests are kept, and only in memory, so a
// restart ends them.
type SignInCodes struct {
	clock ops.Clock

	mu    sync.Mutex
	codes []signInCode
}

type signInCode struct {
	digest [sha256.Size]byte
	user   string
	ends   time.Time
}

// NewSignInCodes makes an empty set.
func NewSignInCodes(clock ops.Clock) *SignInCodes { return &SignInCodes{clock: clock} }

// Path makes a code and returns the path that signs a browser in with it. User is the name of the person who asked.
func (c *SignInCodes) Path(user string) string {
	code := rand.Text()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	if len(c.codes) >= maxCodes {
		c.codes = c.codes[1:]
	}
	c.codes = append(c.codes, signInCode{sha256.Sum256([]byte(code)), user, c.clock().Add(codeLifetime)})
	return "/login?code=" + code
}

// use takes a code away and returns who asked for it.
func (c *SignInCodes) use(code string) (user string, ok bool) {
	if c == nil {
		return "", false
	}
	given := sha256.Sum256([]byte(code))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	found := -1
	for i := range c.codes { // all of them, so that the time reveals nothing
		if subtle.ConstantTimeCompare(given[:], c.codes[i].digest[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return "", false
	}
	user = c.codes[found].user
	c.codes = append(c.codes[:found], c.codes[found+1:]...)
	return user, true
}

func (c *SignInCodes) expire() {
	now := c.clock()
	for len(c.codes) > 0 && !now.Before(c.codes[0].ends) {
		c.codes = c.codes[1:]
	}
}

// signIn signs a browser in with the code of a link.
func (s *server) signIn(w http.ResponseWriter, r *http.Request, next string) {
	user, ok := s.SignIn.use(strings.TrimSpace(r.URL.Query().Get("code")))
	if !ok {
		if wait := s.wrongGuess(r, "used a sign-in link that is not valid"); wait > 0 {
			s.tooMany(w, r, wait, "Too many wrong tokens.")
			return
		}
		s.showLogin(w, r, http.StatusUnauthorized, loginView{OldLink: true, Next: next})
		return
	}
	if !s.begin(w, r, linkCookie, store.Login{Role: access.RoleAdmin}, api.Caller{Name: "sign-in link of " + user}) {
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// isPreview reports whether a browser or another program only loads a page in advance. Such a request must not use up a code.
func isPreview(r *http.Request) bool {
	for _, name := range []string{"Sec-Purpose", "Purpose", "X-Purpose", "X-Moz"} {
		if value := strings.ToLower(r.Header.Get(name)); strings.Contains(value, "prefetch") || strings.Contains(value, "preview") {
			return true
		}
	}
	return r.Method != http.MethodGet
}

// localUserKey is the context key of the user behind a request of the control socket.
type localUserKey struct{}

// WithLocalUser marks a request of the control socket, whose sender the kernel has named. It needs no token.
func WithLocalUser(ctx context.Context, user string) context.Context {
	return context.WithValue(ctx, localUserKey{}, user)
}

func localUser(r *http.Request) (string, bool) {
	user, ok := r.Context().Value(localUserKey{}).(string)
	return user, ok
}
