package web

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	loginCookie   = "claudeops_login"
	loginLifetime = 7 * 24 * time.Hour
	nonceSize     = 16
	stampSize     = 8
)

// logins knows who may come in. A login is a random number and its end, signed with a key made from the token:
// it survives a restart, and a new token ends it.
type logins struct {
	token [sha256.Size]byte // its hash, so that lengths do not show in the time a comparison takes
	key   []byte

	mu    sync.Mutex
	ended map[[nonceSize]byte]time.Time // logged out, until they would have ended anyway
}

func newLogins(token string) *logins {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("claudeops page login v1"))
	return &logins{
		token: sha256.Sum256([]byte(token)),
		key:   mac.Sum(nil),
		ended: map[[nonceSize]byte]time.Time{},
	}
}

func (l *logins) right(token string) bool {
	given := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(given[:], l.token[:]) == 1
}

func (l *logins) bearer(r *http.Request) bool {
	scheme, token, found := strings.Cut(r.Header.Get("Authorization"), " ")
	return found && strings.EqualFold(scheme, "Bearer") && l.right(strings.TrimSpace(token))
}

func (l *logins) sign(message []byte) []byte {
	mac := hmac.New(sha256.New, l.key)
	mac.Write(message)
	return mac.Sum(nil)
}

// issue makes the value of a login cookie that is good until end.
func (l *logins) issue(end time.Time) string {
	message := make([]byte, nonceSize+stampSize)
	_, _ = rand.Read(message[:nonceSize]) // it never fails; the program ends if it would
	binary.BigEndian.PutUint64(message[nonceSize:], uint64(end.Unix()))
	return base64.RawURLEncoding.EncodeToString(append(message, l.sign(message)...))
}

// open returns the number and the end of a login cookie, if we made it.
func (l *logins) open(value string) (nonce [nonceSize]byte, end time.Time, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil || len(raw) != nonceSize+stampSize+sha256.Size {
		return nonce, end, false
	}
	message, signature := raw[:nonceSize+stampSize], raw[nonceSize+stampSize:]
	if !hmac.Equal(signature, l.sign(message)) {
		return nonce, end, false
	}
	copy(nonce[:], message)
	return nonce, time.Unix(int64(binary.BigEndian.Uint64(message[nonceSize:])), 0), true
}

func (l *logins) valid(value string, now time.Time) bool {
	nonce, end, ok := l.open(value)
	if !ok || !now.Before(end) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, loggedOut := l.ended[nonce]
	return !loggedOut
}

func (l *logins) end(value string, now time.Time) {
	nonce, end, ok := l.open(value)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for other, until := range l.ended {
		if !now.Before(until) {
			delete(l.ended, other)
		}
	}
	l.ended[nonce] = end
}

func (s *server) loggedIn(r *http.Request) bool {
	if s.logins == nil {
		return false
	}
	cookie, err := r.Cookie(loginCookie)
	return err == nil && s.logins.valid(cookie.Value, s.Clock())
}

type loginView struct {
	Wrong bool
	Next  string
}

func (s *server) loginPage(w http.ResponseWriter, r *http.Request) {
	next := localPath(r.URL.Query().Get("next"))
	if s.logins == nil || s.loggedIn(r) {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	s.render(w, r, http.StatusOK, "login", page{Title: "Log in", Body: loginView{Next: next}})
}

func (s *server) login(w http.ResponseWriter, r *http.Request) {
	next := localPath(r.PostFormValue("next"))
	if s.logins == nil {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	if !s.logins.right(strings.TrimSpace(r.PostFormValue("token"))) {
		s.Logger.WarnContext(r.Context(), "a login with a wrong token was refused", "from", r.RemoteAddr)
		s.render(w, r, http.StatusUnauthorized, "login", page{Title: "Log in", Body: loginView{Wrong: true, Next: next}})
		return
	}
	end := s.Clock().Add(loginLifetime)
	http.SetCookie(w, &http.Cookie{
		Name: loginCookie, Value: s.logins.issue(end), Path: "/", Expires: end,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: encrypted(r),
	})
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (s *server) logout(w http.ResponseWriter, r *http.Request) {
	if s.logins == nil {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	if cookie, err := r.Cookie(loginCookie); err == nil {
		s.logins.end(cookie.Value, s.Clock())
	}
	http.SetCookie(w, &http.Cookie{
		Name: loginCookie, Path: "/", MaxAge: -1,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: encrypted(r),
	})
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// loginPath sends a visitor back afterwards to the page that was asked for.
func loginPath(r *http.Request) string {
	if r.Method != http.MethodGet || r.URL.Path == "/" {
		return "/login"
	}
	return "/login?next=" + url.QueryEscape(r.URL.RequestURI())
}

// localPath returns where to go next, which is never another site.
func localPath(target string) string {
	u, err := url.Parse(target)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(u.Path, "//") || strings.ContainsAny(target, "\\\r\n\t") {
		return "/"
	}
	return u.RequestURI()
}

// encrypted reports whether the browser speaks TLS, to us or to the proxy before us.
func encrypted(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}
