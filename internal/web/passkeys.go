package web

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"claudeops/internal/access"
	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/web/login"
)

const (
	passkeySignIn = signInPath + "passkey"
	// ceremonyCookie holds the session of a ceremony between its two requests.
	ceremonyCookie = "claudeops_passkey"
)

func removeQuestion(p store.Passkey) question {
	return question{
		ID: fmt.Sprintf("passkey-%d", p.ID), Button: "Remove", Title: "Remove passkey " + plain(p.Name), Style: "small",
		Text:   "It no longer signs in, and logins with it end. The entry on the device stays; delete it there too.",
		Action: fmt.Sprintf("/config/passkeys/%d/remove", p.ID), Yes: "Remove passkey", No: "Keep passkey", Danger: true,
	}
}

// site is this site as the browser sees it.
func passkeySite(r *http.Request) login.Site {
	scheme := "http"
	if encrypted(r) {
		scheme = "https"
	}
	return login.Site{Host: hostname(r.Host), Origin: scheme + "://" + strings.ToLower(r.Host)}
}

func (s *server) ceremonyKey(purpose string) key {
	return newKey(s.Token, "claudeops passkey "+purpose+" v1")
}

// tooManyCeremonies refuses a step of a ceremony, before anything is counted, stored or checked for it, where too many came.
func (s *server) tooManyCeremonies(w http.ResponseWriter, r *http.Request) bool {
	now := s.Clock()
	wait := max(s.rateLimits.ceremonies.take(peer(r), now), s.rateLimits.allCeremonies.take("", now))
	if wait > 0 {
		s.tooMany(w, r, wait, "Too many sign-ins with passkeys.")
	}
	return wait > 0
}

// beginCeremony sends the options of a ceremony to the script and keeps its session in a signed cookie. The database
// knows that it was begun.
func (s *server) beginCeremony(w http.ResponseWriter, r *http.Request, purpose string, options, session []byte) {
	now := s.Clock()
	if err := s.Store.AddCode(r.Context(), "passkey "+purpose, string(session), "", now, now.Add(login.PasskeyTimeout)); err != nil {
		s.Logger.WarnContext(r.Context(), "begin passkey ceremony failed", "error", err)
		s.scriptProblem(w, http.StatusServiceUnavailable, "The database does not answer. Try again.")
		return
	}
	value := base64.RawURLEncoding.EncodeToString(session)
	http.SetCookie(w, &http.Cookie{
		Name: ceremonyCookie, Value: value + "." + s.ceremonyKey(purpose).digest(value), Path: "/", MaxAge: int(login.PasskeyTimeout.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: encrypted(r),
	})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(options) // the client may have disconnected
}

// endCeremony returns the session of a ceremony that this browser began, once.
func (s *server) endCeremony(w http.ResponseWriter, r *http.Request, purpose string) ([]byte, bool) {
	cookie, err := r.Cookie(ceremonyCookie)
	if err != nil {
		return nil, false
	}
	http.SetCookie(w, &http.Cookie{
		Name: ceremonyCookie, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: encrypted(r),
	})
	value, digest, found := strings.Cut(cookie.Value, ".")
	if !found || !hmac.Equal([]byte(digest), []byte(s.ceremonyKey(purpose).digest(value))) {
		return nil, false
	}
	session, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil {
		return nil, false
	}
	_, err = s.Store.UseCode(r.Context(), "passkey "+purpose, string(session), s.Clock())
	return session, err == nil
}

const (
	addingPasskey = "add"
	signingIn     = "sign-in"
)

// beginPasskey starts to register a passkey.
func (s *server) beginPasskey(w http.ResponseWriter, r *http.Request) {
	options, session, err := login.BeginAddPasskey(passkeySite(r), "Claude Ops")
	if err != nil {
		s.scriptProblem(w, http.StatusUnprocessableEntity, "Passkeys need a host name: open the pages by their name instead of an IP address.")
		return
	}
	s.beginCeremony(w, r, addingPasskey, options, session)
}

// addPasskey stores a passkey that the browser registered.
func (s *server) addPasskey(w http.ResponseWriter, r *http.Request) {
	var sent struct {
		Name       string          `json:"name"`
		Role       access.Role     `json:"role"`
		Credential json.RawMessage `json:"credential"`
	}
	session, ok := s.endCeremony(w, r, addingPasskey)
	if err := readJSON(r, &sent); err != nil {
		s.scriptProblem(w, http.StatusUnprocessableEntity, "The request cannot be read: "+plain(clipped(err.Error()))+".")
		return
	}
	if !ok {
		s.scriptProblem(w, http.StatusBadRequest, "This was not begun in this browser, or took too long. Try again.")
		return
	}
	id, stored, err := login.FinishAddPasskey(passkeySite(r), session, sent.Credential)
	if err != nil {
		s.Logger.WarnContext(r.Context(), "add passkey failed", "error", clipped(err.Error()))
		s.scriptProblem(w, http.StatusUnprocessableEntity, "The passkey could not be added. The device must ask for a PIN or a fingerprint.")
		return
	}
	_, err = s.Store.AddPasskey(r.Context(), store.Passkey{
		Name: sent.Name, Role: sent.Role, CredentialID: id, Credential: stored, CreatedAt: s.Clock(), CreatedBy: s.person(r),
	})
	switch {
	case store.Unavailable(err):
		s.scriptProblem(w, http.StatusServiceUnavailable, "The database does not answer. Try again.")
	case err != nil:
		s.scriptProblem(w, http.StatusUnprocessableEntity, plain(err.Error()))
	default:
		s.scriptNext(w, "/config?done=passkey-added#access")
	}
}

// removePasskey deletes a passkey.
func (s *server) removePasskey(r *http.Request) (string, error) {
	return "/config?done=passkey-removed#access", s.Store.RemovePasskey(r.Context(), rowID(r), s.person(r), s.Clock())
}

// beginPasskeySignIn starts a sign-in with a passkey.
func (s *server) beginPasskeySignIn(w http.ResponseWriter, r *http.Request) {
	if s.tooManyCeremonies(w, r) {
		return
	}
	options, session, err := login.BeginPasskey(passkeySite(r))
	if err != nil {
		s.scriptProblem(w, http.StatusUnprocessableEntity, "Passkeys need a host name: open the pages by their name instead of an IP address.")
		return
	}
	s.beginCeremony(w, r, signingIn, options, session)
}

// passkeyLogin signs a browser in with a passkey.
func (s *server) passkeyLogin(w http.ResponseWriter, r *http.Request) {
	if s.tooManyCeremonies(w, r) {
		return
	}
	var sent struct {
		Next       string          `json:"next"`
		Credential json.RawMessage `json:"credential"`
	}
	session, ok := s.endCeremony(w, r, signingIn)
	if err := readJSON(r, &sent); err != nil {
		s.scriptProblem(w, http.StatusUnprocessableEntity, "The request cannot be read: "+plain(clipped(err.Error()))+".")
		return
	}
	if !ok {
		s.scriptProblem(w, http.StatusBadRequest, "This was not begun in this browser, or took too long. Try again.")
		return
	}
	var known store.Passkey
	//nolint:contextcheck // the library calls it within this request
	_, stored, err := login.FinishPasskey(passkeySite(r), session, sent.Credential, func(id string) ([]byte, error) {
		var err error
		known, err = s.Store.Passkey(r.Context(), id)
		return known.Credential, err
	})
	switch {
	case store.Unavailable(err):
		s.scriptProblem(w, http.StatusServiceUnavailable, "The database does not answer. Try again.")
		return
	case errors.Is(err, login.ErrCopied):
		s.record(r, api.Caller{Name: "passkey " + known.Name}, ops.LevelCritical, "was refused: somebody may have a copy of it; remove it")
		s.scriptProblem(w, http.StatusForbidden, "This passkey may have been copied. Sign in another way and remove it.")
		return
	case err != nil:
		if wait := s.wrongGuess(r, "tried to sign in with an unknown passkey"); wait > 0 {
			s.tooMany(w, r, wait, "Too many failed sign-ins.")
			return
		}
		s.scriptProblem(w, http.StatusUnauthorized, "This passkey is not known here.")
		return
	}
	if err := s.Store.UsePasskey(r.Context(), known.ID, stored, s.Clock()); err != nil {
		s.scriptProblem(w, http.StatusServiceUnavailable, "The database does not answer. Try again.")
		return
	}
	by := api.Caller{Name: "passkey " + known.Name}
	if s.begin(w, r, passkeyCookie, store.Login{Role: known.Role, Name: by.Name, PasskeyID: known.ID}, by) {
		s.scriptNext(w, localPath(sent.Next))
	}
}

func readJSON(r *http.Request, into any) error {
	text, err := io.ReadAll(r.Body) // its size is limited for every request
	if err != nil {
		return err
	}
	if why := api.Ambiguous(text); why != "" {
		return fmt.Errorf("the body %s", why)
	}
	return json.Unmarshal(text, into)
}

// scriptNext tells the script where to go.
func (s *server) scriptNext(w http.ResponseWriter, path string) {
	s.scriptAnswer(w, http.StatusOK, "next", path)
}

// scriptProblem tells the script what to show.
func (s *server) scriptProblem(w http.ResponseWriter, status int, problem string) {
	s.scriptAnswer(w, status, "problem", problem)
}

func (s *server) scriptAnswer(w http.ResponseWriter, status int, name, value string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{name: value}) // the client may have disconnected
}
