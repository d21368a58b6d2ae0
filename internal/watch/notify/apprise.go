// Package notify delivers the notices of the outbox to people: to ntfy and Telegram itself, with buttons, and to everything else through
// Apprise. It also reads the answers that people give with the buttons.
package notify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// sendTimeout bounds one attempt.
const sendTimeout = 30 * time.Second

// ErrNoTarget means that no notification target is configured.
var ErrNoTarget = errors.New("no notification target is configured: set CLAUDEOPS_APPRISE_URLS or CLAUDEOPS_APPRISE_API")

// AppriseOptions say where notices go.
type AppriseOptions struct {
	Bin        string   // the apprise program; empty: apprise on the PATH
	URLs       []string // Apprise URLs; they hold secrets
	API        string   // address of an Apprise API server, used instead of the program when set
	Dir        string   // private folder for the configuration file of the program
	HTTPClient *http.Client
}

// Apprise sends notices with the apprise program or to an Apprise API server.
type Apprise struct {
	bin    string
	urls   []string
	api    string
	dir    string
	client http.Client
	hide   *strings.Replacer
}

// New makes a sender. Without URLs and API every Send is ErrNoTarget.
func New(o AppriseOptions) *Apprise {
	a := &Apprise{bin: o.Bin, api: o.API, dir: o.Dir, hide: hider(o.URLs)}
	if a.bin == "" {
		a.bin = "apprise"
	}
	for _, u := range o.URLs {
		if u = strings.TrimSpace(u); u != "" {
			a.urls = append(a.urls, u)
		}
	}
	if o.HTTPClient != nil {
		a.client = *o.HTTPClient
	}
	a.client.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // following would turn the POST into a GET that succeeds and sends nothing
	}
	return a
}

// Send delivers one notice to every target, or says what to do about it.
func (a *Apprise) Send(ctx context.Context, n ops.Notice) error {
	ctx, cancel := context.WithTimeoutCause(ctx, sendTimeout, fmt.Errorf("apprise did not finish within %s", sendTimeout))
	defer cancel()
	m := messageOf(withAnswers(n))
	switch {
	case a.api != "":
		return a.post(ctx, m)
	case len(a.urls) > 0:
		return a.run(ctx, m)
	default:
		return ErrNoTarget
	}
}

// message is a notice as Apprise takes it.
type message struct {
	Title  string `json:"title"`
	Body   string `json:"body"`
	Type   string `json:"type"`
	Format string `json:"format"`
	URLs   string `json:"urls,omitempty"`
}

// longestTitle is how much of a title every notification service shows.
const longestTitle = 250

// messageOf is the text of a notice, with its link at the end of the first line.
func messageOf(n ops.Notice) message {
	if n.Link != "" {
		n.Body = notice.WithLink(n.Body, n.Link)
	}
	m := message{
		Title:  ops.OneLine(n.Title, longestTitle),
		Body:   strings.ToValidUTF8(strings.ReplaceAll(n.Body, "\x00", ""), "�"),
		Type:   "info",
		Format: "markdown",
	}
	if strings.TrimSpace(m.Body) == "" { // Apprise refuses an empty body
		m.Body = m.Title
	}
	switch n.Level {
	case ops.LevelInfo:
	case ops.LevelWarning:
		m.Type = "warning"
	case ops.LevelCritical:
		m.Type = "failure"
	}
	return m
}
