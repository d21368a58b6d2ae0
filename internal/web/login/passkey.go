package login

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
)

// PasskeyTimeout is how long a person may take.
const PasskeyTimeout = 5 * time.Minute

// ErrCopied means that somebody else may have a copy of the key: its counter went back.
var ErrCopied = errors.New("the counter of the passkey went back")

// Site is the site that a passkey belongs to, as the browser sees it.
type Site struct {
	Host   string // without the port
	Origin string // such as https://ops.example.org
}

// Stored is a passkey as it is kept. A passkey is a key on a device of a person; the server has its public half only. Nothing is stored
// here: between the two requests of a ceremony the caller keeps the session.
type Stored struct {
	User       []byte              `json:"user"`
	Credential webauthn.Credential `json:"credential"`
}

// holder is the person of one passkey, as the library wants it.
type holder struct {
	id          []byte
	name        string
	credentials []webauthn.Credential
}

func (h holder) WebAuthnID() []byte                         { return h.id }
func (h holder) WebAuthnName() string                       { return h.name }
func (h holder) WebAuthnDisplayName() string                { return h.name }
func (h holder) WebAuthnCredentials() []webauthn.Credential { return h.credentials }

func open(s Site) (*webauthn.WebAuthn, error) {
	limit := webauthn.TimeoutConfig{Enforce: true, Timeout: PasskeyTimeout, TimeoutUVD: PasskeyTimeout}
	return webauthn.New(&webauthn.Config{
		RPID: s.Host, RPDisplayName: "Claude Ops", RPOrigins: []string{s.Origin},
		Timeouts: webauthn.TimeoutsConfig{Login: limit, Registration: limit},
	})
}

// BeginAddPasskey starts to register a passkey. The browser gets the options.
func BeginAddPasskey(s Site, name string) (options, session []byte, err error) {
	wa, err := open(s)
	if err != nil {
		return nil, nil, fmt.Errorf("begin passkey: %w", err)
	}
	id := make([]byte, 32)
	_, _ = rand.Read(id) // it never returns an error
	made, state, err := wa.BeginRegistration(holder{id: id, name: name}, webauthn.WithAuthenticatorSelection(protocol.AuthenticatorSelection{
		ResidentKey: protocol.ResidentKeyRequirementRequired, UserVerification: protocol.VerificationRequired,
	}))
	if err != nil {
		return nil, nil, fmt.Errorf("begin passkey: %w", err)
	}
	return pack(made, state)
}

// FinishAddPasskey ends a registration with what the browser sent.
func FinishAddPasskey(s Site, session, sent []byte) (id string, stored []byte, err error) {
	wa, state, err := resume(s, session)
	if err != nil {
		return "", nil, fmt.Errorf("add passkey: %w", err)
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(sent)
	if err != nil {
		return "", nil, fmt.Errorf("add passkey: %w", err)
	}
	credential, err := wa.CreateCredential(holder{id: state.UserID}, state, parsed)
	if err != nil {
		return "", nil, fmt.Errorf("add passkey: %w", err)
	}
	stored, err = json.Marshal(Stored{User: state.UserID, Credential: *credential})
	return ID(credential.ID), stored, err
}

// BeginPasskey starts a sign-in with any passkey of the site.
func BeginPasskey(s Site) (options, session []byte, err error) {
	wa, err := open(s)
	if err != nil {
		return nil, nil, fmt.Errorf("begin sign-in: %w", err)
	}
	made, state, err := wa.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return nil, nil, fmt.Errorf("begin sign-in: %w", err)
	}
	return pack(made, state)
}

// FinishPasskey ends a sign-in with what the browser sent. Find returns a stored passkey by its id; the result is to be stored instead.
func FinishPasskey(s Site, session, sent []byte, find func(id string) ([]byte, error)) (id string, stored []byte, err error) {
	wa, state, err := resume(s, session)
	if err != nil {
		return "", nil, fmt.Errorf("sign in with passkey: %w", err)
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(sent)
	if err != nil {
		return "", nil, fmt.Errorf("sign in with passkey: %w", err)
	}
	var known Stored
	_, credential, err := wa.ValidatePasskeyLogin(func(rawID, _ []byte) (webauthn.User, error) {
		text, err := find(ID(rawID))
		if err == nil {
			err = json.Unmarshal(text, &known)
		}
		return holder{id: known.User, credentials: []webauthn.Credential{known.Credential}}, err
	}, state, parsed)
	if err != nil {
		return "", nil, fmt.Errorf("sign in with passkey: %w", err)
	}
	if credential.Authenticator.CloneWarning {
		return ID(credential.ID), nil, ErrCopied
	}
	known.Credential = *credential
	stored, err = json.Marshal(known)
	return ID(credential.ID), stored, err
}

// ID is the id of a passkey as text.
func ID(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

func pack(options any, state *webauthn.SessionData) (made, session []byte, err error) {
	if made, err = json.Marshal(options); err != nil {
		return nil, nil, err
	}
	session, err = json.Marshal(state)
	return made, session, err
}

func resume(s Site, session []byte) (*webauthn.WebAuthn, webauthn.SessionData, error) {
	var state webauthn.SessionData
	if err := json.Unmarshal(session, &state); err != nil {
		return nil, state, err
	}
	wa, err := open(s)
	return wa, state, err
}
