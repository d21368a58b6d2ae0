package web

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const (
	loginCookie = "claudeops_login"
	// idleLogin is how long an unused login lasts, longestLogin how long any login lasts.
	idleLogin    = 12 * time.Hour
	longestLogin = 7 * 24 * time.Hour
	// renewLogin is the age at which a cookie is replaced; requests in flight may still carry the old one for renewGrace.
	renewLogin  = time.Hour
	renewGrace  = time.Minute
	secretBytes = 24
)

// The caller names that requests are recorded under.
const (
	nameToken     = "token"
	nameReadToken = "read-only token"
	nameLogin     = "login"
	nameLink      = "login by link"
	nameReadLogin = "read-only login"
)

// The first letter of a cookie says what it came from: a token, or the code of a sign-in link.
const (
	fullCookie = "f"
	readCookie = "r"
	linkCookie = "c"
)

// logins authenticates requests. A cookie is a random secret; the database stores its digest, keyed with the token. So logins
// and logouts survive a restart, and a new token ends every login.
type logins struct {
	store    *store.Store
	full     key
	link     key  // of logins by link; it is derived from the full token too
	read     *key // nil where there is no read-only token
	operator bool // the full token was set by the operator, not made by the daemon
}

// key is derived from a token.
type key struct {
	set  bool
	hash [sha256.Size]byte // of the token, so that the comparison time does not depend on its length
	sign []byte
}

func newKey(token, purpose string) key {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte(purpose))
	return key{set: token != "", hash: sha256.Sum256([]byte(token)), sign: mac.Sum(nil)}
}

func (k key) matches(token string) bool {
	given := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(given[:], k.hash[:]) == 1 && k.set
}

func (k key) digest(secret string) string {
	mac := hmac.New(sha256.New, k.sign)
	mac.Write([]byte(secret))
	return hex.EncodeToString(mac.Sum(nil))
}

func newLogins(o Options) *logins {
	const byToken, byLink = "claudeops page login v2", "claudeops page login by link v1"
	l := &logins{store: o.Store, full: newKey(o.Token, byToken), link: newKey(o.Token, byLink), operator: o.OperatorToken}
	if o.ReadToken != "" {
		l.read = new(newKey(o.ReadToken, byToken))
	}
	return l
}

// admit checks a token and reports the access it gives.
func (l *logins) admit(token string) (readOnly, ok bool) {
	// Both are always compared, so that the time reveals nothing.
	full := l.full.matches(token)
	read := l.read != nil && l.read.matches(token)
	return !full, full || read
}

// givenToken returns the bearer token of a request.
func givenToken(r *http.Request) (token string, given bool) {
	scheme, token, found := strings.Cut(r.Header.Get("Authorization"), " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}

// digest returns the digest of a cookie and what the cookie came from.
func (l *logins) digest(cookie string) (digest, kind string, ok bool) {
	kind, secret, found := strings.Cut(cookie, ".")
	switch {
	case !found || len(secret) < secretBytes || !l.full.set:
		return "", "", false
	case kind == fullCookie:
		return l.full.digest(secret), kind, true
	case kind == linkCookie:
		return l.link.digest(secret), kind, true
	case kind == readCookie && l.read != nil:
		return l.read.digest(secret), kind, true
	}
	return "", "", false
}

// found is the login of a request, and what it came from.
type found struct {
	store.Login
	kind string
}

// find returns the login of the cookie of a request.
func (l *logins) find(r *http.Request, now time.Time) (found, error) {
	cookie, err := r.Cookie(loginCookie)
	if err != nil {
		return found{}, ops.ErrNotFound
	}
	digest, kind, ok := l.digest(cookie.Value)
	if !ok {
		return found{}, ops.ErrNotFound
	}
	login, err := l.store.Login(r.Context(), digest, now)
	if err == nil && login.ReadOnly != (kind == readCookie) {
		err = ops.ErrNotFound
	}
	return found{login, kind}, err
}

// issue makes a login and its cookie value. A login that it replaces stays valid for renewGrace.
func (l *logins) issue(ctx context.Context, kind string, born, now time.Time, replaces string) (cookie string, end time.Time, err error) {
	random := make([]byte, secretBytes)
	_, _ = rand.Read(random) // it never returns an error
	cookie = kind + "." + base64.RawURLEncoding.EncodeToString(random)
	digest, _, _ := l.digest(cookie)
	end = now.Add(idleLogin)
	if last := born.Add(longestLogin); last.Before(end) {
		end = last
	}
	err = l.store.AddLogin(ctx, store.Login{Digest: digest, ReadOnly: kind == readCookie, BornAt: born, RenewedAt: now, ExpiresAt: end},
		replaces, now.Add(renewGrace))
	return cookie, end, err
}

// loggedIn reports whether a request was authenticated by a login.
func (s *server) loggedIn(r *http.Request) bool {
	name := caller(r).Name
	return name == nameLogin || name == nameReadLogin || name == nameLink
}

// bearer reports whether a request was authenticated by a bearer token.
func (l *logins) bearer(r *http.Request) bool {
	name := caller(r).Name
	return name == nameToken || name == nameReadToken
}

// loginOf returns the login of a request, if it has one.
func (s *server) loginOf(r *http.Request) (found, bool) {
	login, err := s.logins.find(r, s.Clock())
	if err != nil && !errors.Is(err, ops.ErrNotFound) && r.Context().Err() == nil {
		s.Logger.ErrorContext(r.Context(), "read login failed", "error", err)
	}
	return login, err == nil
}

// renew replaces an older cookie.
func (s *server) renew(w http.ResponseWriter, r *http.Request, login found) {
	now := s.Clock()
	if now.Sub(login.RenewedAt) < renewLogin || r.Method != http.MethodGet || isStream(r.URL.Path) {
		return
	}
	cookie, end, err := s.logins.issue(r.Context(), login.kind, login.BornAt, now, login.Digest)
	switch {
	case errors.Is(err, ops.ErrConflict): // another request of the same browser already renewed it
	case err != nil:
		s.Logger.ErrorContext(r.Context(), "renew login failed", "error", err)
	default:
		setLogin(w, r, cookie, end)
	}
}

func setLogin(w http.ResponseWriter, r *http.Request, value string, end time.Time) {
	http.SetCookie(w, &http.Cookie{
		Name: loginCookie, Value: value, Path: "/", Expires: end,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: encrypted(r),
	})
}

type loginView struct {
	Wrong   bool
	OldLink bool // the code of the link is used up, too old, or wrong
	Next    string
}

func (s *server) loginPage(w http.ResponseWriter, r *http.Request) {
	next := localPath(r.URL.Query().Get("next"))
	if _, in := s.loginOf(r); in {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	if r.URL.Query().Has("code") && !isPreview(r) {
		s.signIn(w, r, next)
		return
	}
	s.render(w, r, http.StatusOK, "login", page{Title: "Log in", Body: loginView{Next: next}})
}

func (s *server) login(w http.ResponseWriter, r *http.Request) {
	next := localPath(r.PostFormValue("next"))
	readOnly, ok := s.logins.admit(strings.TrimSpace(r.PostFormValue("token")))
	if !ok {
		if wait := s.wrongGuess(r, "tried to log in with a wrong token"); wait > 0 {
			s.tooMany(w, r, wait, "Too many wrong tokens.")
			return
		}
		s.render(w, r, http.StatusUnauthorized, "login", page{Title: "Log in", Body: loginView{Wrong: true, Next: next}})
		return
	}
	kind := fullCookie
	if readOnly {
		kind = readCookie
	}
	now := s.Clock()
	cookie, end, err := s.logins.issue(r.Context(), kind, now, now, "")
	if err != nil {
		s.fail(w, r, "login", err)
		return
	}
	s.record(r, s.logins.tokenCaller(readOnly), ops.LevelInfo, "logged in")
	setLogin(w, r, cookie, end)
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (s *server) logout(w http.ResponseWriter, r *http.Request) {
	if login, in := s.loginOf(r); in {
		if err := s.logins.store.EndLogin(r.Context(), login.Digest); err != nil {
			s.fail(w, r, "login", err) // the cookie still works, so it is not removed
			return
		}
		s.record(r, s.logins.loginCaller(login), ops.LevelInfo, "logged out")
	}
	http.SetCookie(w, &http.Cookie{
		Name: loginCookie, Path: "/", MaxAge: -1,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: encrypted(r),
	})
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

func (l *logins) tokenCaller(readOnly bool) api.Caller {
	if readOnly {
		return api.Caller{Name: nameReadToken, ReadOnly: true}
	}
	return api.Caller{Name: nameToken, KnowsToken: l.operator}
}

func (l *logins) loginCaller(login found) api.Caller {
	switch login.kind {
	case readCookie:
		return api.Caller{Name: nameReadLogin, ReadOnly: true}
	case linkCookie:
		return api.Caller{Name: nameLink}
	}
	return api.Caller{Name: nameLogin, KnowsToken: l.operator}
}

// loginPath returns the URL of the login page, which then redirects to the requested page.
func loginPath(r *http.Request) string {
	if r.Method != http.MethodGet || r.URL.Path == "/" {
		return "/login"
	}
	return "/login?next=" + url.QueryEscape(r.URL.RequestURI())
}

// localPath returns a redirect target on this site.
func localPath(target string) string {
	u, err := url.Parse(target)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(u.Path, "//") || strings.ContainsAny(target, "\\\r\n\t") {
		return "/"
	}
	return u.RequestURI()
}

// encrypted reports whether the browser uses TLS, to this server or to a proxy in front of it.
func encrypted(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}
