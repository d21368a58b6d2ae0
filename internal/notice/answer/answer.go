// Package answer makes and checks the tokens with which people answer a notice: from a button on a phone, or by a link. A token says what
// is answered, how, for which plan and by whom, and until when. It is signed, so nobody can make or change one without the key of the
// installation. The package is pure; that a token is used only once is recorded in the database.
package answer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"time"
)

// Kind is what can be answered.
type Kind string

// The kinds.
const (
	KindApproval Kind = "approval"
	KindIncident Kind = "incident"
	KindCycle    Kind = "cycle"  // every open incident that the cycle reported
	KindReflex   Kind = "reflex" // whether a repair becomes one
)

// Subject is what is answered.
type Subject struct {
	Kind Kind
	ID   int64
}

// The answers.
const (
	Approve     = "approve"
	Deny        = "deny"
	Acknowledge = "acknowledge"
	Snooze      = "snooze"
)

// SnoozeFor is how long a button or a link snoozes.
const SnoozeFor = 2 * time.Hour

// Token is one possible answer to one notice.
type Token struct {
	Subject   Subject
	Decision  string // approve, deny, acknowledge or snooze
	Plan      string // hash of the plan that was shown; empty if there is none
	Recipient string // the person or target that the token was sent to
	Expires   time.Time
}

// The errors of Verify. A token with one of them must not be obeyed.
var (
	ErrForged  = errors.New("the answer is not genuine")
	ErrExpired = errors.New("the answer came too late")
)

const (
	version = 1
	// longest is how many characters of a token are read: more is no token of ours.
	longest = 4096
	// purpose keeps a signature made for something else with the same key from being valid here.
	purpose = "claudeops answer 1\x00"
)

// encoding refuses a second spelling of the same bytes.
func encoding() *base64.Encoding { return base64.RawURLEncoding.Strict() }

// Sign makes a token that is safe in a URL. The expiry is kept in whole seconds.
func Sign(key []byte, t Token) string {
	raw := []byte{version}
	raw = binary.AppendVarint(raw, t.Subject.ID)
	raw = binary.AppendVarint(raw, t.Expires.Unix())
	for _, text := range []string{string(t.Subject.Kind), t.Decision, t.Plan, t.Recipient} {
		raw = binary.AppendUvarint(raw, uint64(len(text)))
		raw = append(raw, text...)
	}
	return encoding().EncodeToString(append(raw, sum(key, raw)...))
}

// Verify checks a token. A token whose time is over is returned together with ErrExpired, so that the reply can say what it was for.
func Verify(key []byte, s string, now time.Time) (Token, error) {
	// The decoder skips line breaks, which would make a second spelling of a used token.
	if len(s) > longest || len(key) == 0 || strings.ContainsAny(s, "\r\n") {
		return Token{}, ErrForged
	}
	raw, err := encoding().DecodeString(s)
	if err != nil || len(raw) <= sha256.Size {
		return Token{}, ErrForged
	}
	signed, mac := raw[:len(raw)-sha256.Size], raw[len(raw)-sha256.Size:]
	if !hmac.Equal(mac, sum(key, signed)) {
		return Token{}, ErrForged
	}
	t, ok := decode(signed)
	if !ok {
		return Token{}, ErrForged
	}
	if !now.Before(t.Expires) {
		return t, ErrExpired
	}
	return t, nil
}

// Code is a short name of a token, for channels that have no room for the token itself. It says nothing about the token, and only somebody
// who has the token can make it. It also identifies a token that was used.
func Code(token string) string {
	const bytes = 18
	digest := sha256.Sum256([]byte(token))
	return encoding().EncodeToString(digest[:bytes])
}

func sum(key, raw []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(purpose))
	mac.Write(raw)
	return mac.Sum(nil)
}

func decode(raw []byte) (Token, bool) {
	if len(raw) == 0 || raw[0] != version {
		return Token{}, false
	}
	raw = raw[1:]
	var t Token
	var kind string
	var expires int64
	for _, n := range []*int64{&t.Subject.ID, &expires} {
		value, size := binary.Varint(raw)
		if size <= 0 {
			return Token{}, false
		}
		*n, raw = value, raw[size:]
	}
	t.Expires = time.Unix(expires, 0).UTC()
	for _, text := range []*string{&kind, &t.Decision, &t.Plan, &t.Recipient} {
		length, size := binary.Uvarint(raw)
		if size <= 0 || length > uint64(len(raw)-size) {
			return Token{}, false
		}
		raw = raw[size:]
		*text, raw = string(raw[:length]), raw[length:]
	}
	t.Subject.Kind = Kind(kind)
	return t, len(raw) == 0
}

// LinkPath begins the path of a link; the token follows.
const LinkPath = "/answer/"

// linkPrefix begins the recipient of a link, so that the token of a button cannot be used as a link, nor a link as a button.
const linkPrefix = "link:"

// LinkRecipient is the recipient of the links that go to a route.
func LinkRecipient(route string) string { return linkPrefix + route }

// LinkRoute returns the route that a link was sent to, and whether the token is that of a link.
func (t Token) LinkRoute() (string, bool) { return strings.CutPrefix(t.Recipient, linkPrefix) }

// Reply is an answer that a person gave outside of the pages and the API: with a button on a phone, or by a link.
type Reply struct {
	Token   Token  // verified; the zero value if there was no genuine one
	Code    string // identifies the token
	Source  string // identifies the message that brought it
	Channel string // as people know it: Telegram, ntfy
	By      string // the person, or the target that the token was sent to
	Refused string // why the answer must not be carried out; empty if it may be
	// Mark and Read say how far the messages of a channel were read, which is recorded with the answer. Mark may be empty.
	Mark, Read string
	// Silent leaves a refused reply out of the events: it was not an answer, or too many came.
	Silent bool
	At     time.Time // of the answer, which the desk says
}

// Result is what became of a reply.
type Result struct {
	Done     bool
	Repeated bool   // the same message was taken before; the person knows already
	Text     string // one sentence for the person
}
