// Package webhook receives alerts of other systems by HTTP. An alert that is answered with 202 is in the database.
//
//	POST /api/v1/webhooks/{alertmanager|grafana|generic|SENDER}[?environment=NAME]
//	POST /api/v1/webhooks/SENDER/SECRET[?environment=NAME]
//
// When more alerts arrive than can be written or processed, the answer is 429 and the sender tries again.
package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/watch/alert"
)

// Path is where the webhooks are, before the name of the source.
const Path = "/api/v1/webhooks/"

const (
	maxBody = 1 << 20
	// atOnce limits the requests that are parsed or wait to be written, and so their memory.
	atOnce = 256
	// mostPending is how many alerts may wait to be processed.
	mostPending = 10_000
	// countEvery is how often the waiting alerts are counted.
	countEvery = 250 * time.Millisecond
	// retryAfter is when a refused sender should try again, in seconds.
	retryAfter  = 2
	writeWithin = 10 * time.Second
)

// Events shows tests as events.
type Events interface {
	AddEvent(ctx context.Context, e ops.Event) (int64, error)
}

// Store keeps the alerts.
type Store interface {
	AddAlerts(ctx context.Context, alerts []ops.Alert) error
	AddSignedAlerts(ctx context.Context, requests []ops.SignedAlerts) (replayed []bool, err error)
	CountPendingAlerts(ctx context.Context, most int) (int, error)
}

// Options are what the webhooks need.
type Options struct {
	Store        Store
	Events       Events
	Environments []string // the first one is the default
	Token        string   // as `Authorization: Bearer …`
	Secret       string   // signs requests, as `X-Claudeops-Signature: t=…,v2=…`
	Senders      []ops.AlertSender
	Clock        ops.Clock
	Logger       *slog.Logger
	// Service maps the name of a service in an alert to its name in the inventory.
	Service func(environment, name string) string
	// Wake is called after alerts were written.
	Wake func()
	// Redact removes secrets from what is stored.
	Redact func(string) string
	// AtOnce and Pending lower the bounds, for tests.
	AtOnce, Pending int
}

// Hook is the handler of the webhooks.
type Hook struct {
	o       Options
	guarded http.Handler
	slots   chan struct{}
	room    room
	// senders are requests with the token, strangers those whose signature can be checked only when their body is there.
	senders, strangers unfinished
}

// New makes the handler.
func New(o Options) *Hook {
	if o.AtOnce <= 0 {
		o.AtOnce = atOnce
	}
	if o.Pending <= 0 {
		o.Pending = mostPending
	}
	h := &Hook{o: o, slots: make(chan struct{}, o.AtOnce)}
	origins := http.NewCrossOriginProtection() // a page of another site must not send requests
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		problem(w, http.StatusForbidden, "cross-site requests are not allowed")
	}))
	h.guarded = origins.Handler(http.HandlerFunc(h.take))
	return h
}

// ServeHTTP takes one request.
func (h *Hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	h.guarded.ServeHTTP(w, r)
}

func (h *Hook) take(w http.ResponseWriter, r *http.Request) {
	name, secret, _ := strings.Cut(r.URL.Path[min(len(Path), len(r.URL.Path)):], "/")
	sender, ok := h.sender(name)
	switch {
	case !ok && secret == "":
		problem(w, http.StatusNotFound, "unknown webhook; use alertmanager, grafana, generic or a sender of webhooks.senders")
		return
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		problem(w, http.StatusMethodNotAllowed, "send the alert with POST")
		return
	}
	body, receipt, ok := h.read(w, r, ok && same(secret, sender.Secret), secret != "")
	if !ok {
		return
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		busy(w, "too many alerts at once")
		return
	}
	environment, ok := h.environment(w, r)
	if !ok {
		return
	}
	said := r.URL.Query()
	found, err := alert.Parse(alert.Body{
		Sender: sender, Type: r.Header.Get("Content-Type"), Content: body,
		Name: said.Get("name"), Service: said.Get("service"), Status: said.Get("status"), Severity: said.Get("severity"),
	}, h.o.Clock())
	if err != nil {
		status := http.StatusUnprocessableEntity
		if errors.Is(err, alert.ErrTooMany) {
			status = http.StatusRequestEntityTooLarge
		}
		problem(w, status, err.Error())
		return
	}
	for i := range found.Alerts {
		h.adopt(&found.Alerts[i], environment)
	}
	if found.Tests > 0 && len(found.Alerts) == 0 {
		h.tested(w, r, cmp.Or(sender.Name, sender.Form), environment)
		return
	}
	h.keep(w, r, found.Alerts, receipt)
}

// sender is the configured sender of that name, or nobody in particular who uses that form.
func (h *Hook) sender(name string) (ops.AlertSender, bool) {
	if slices.Contains(alert.Sources(), name) {
		return ops.AlertSender{Form: name}, true
	}
	at := slices.IndexFunc(h.o.Senders, func(s ops.AlertSender) bool { return s.Name == name })
	if at < 0 {
		return ops.AlertSender{}, false
	}
	return h.o.Senders[at], true
}

// tested shows that a sender's test button was pressed. There is no alert, so nothing starts.
func (h *Hook) tested(w http.ResponseWriter, r *http.Request, name, environment string) {
	_, err := h.o.Events.AddEvent(r.Context(), ops.Event{
		At: h.o.Clock(), Environment: environment, Level: ops.LevelInfo, Verb: ops.VerbAlertTested,
		Detail: ops.RequestDetail{From: name},
	})
	if err != nil {
		h.failed(w, r, fmt.Errorf("record a test: %w", err))
		return
	}
	answered(w, answer{Test: true})
}

// adopt assigns an alert to the environment.
func (h *Hook) adopt(a *ops.Alert, environment string) {
	a.Environment = environment
	if a.Service != "" {
		a.Service = h.o.Redact(h.o.Service(environment, a.Service))
	}
	a.Summary, a.URL, a.Name = h.o.Redact(a.Summary), h.o.Redact(a.URL), h.o.Redact(a.Name)
	a.Fingerprint = h.o.Redact(a.Fingerprint)
	labels := make(map[string]string, len(a.Labels))
	for name, value := range a.Labels {
		labels[h.o.Redact(name)] = h.label(name, value)
	}
	a.Labels = labels
}

// label is the value of a label without secrets. A secret may be known by the name of the label only, so both are looked at.
func (h *Hook) label(name, value string) string {
	value = h.o.Redact(value)
	both, err := json.Marshal(map[string]string{name: value})
	if err != nil {
		return value
	}
	seen := h.o.Redact(string(both))
	if seen == string(both) {
		return value
	}
	var out map[string]string
	if err := json.Unmarshal([]byte(seen), &out); err != nil || len(out) != 1 {
		return "[redacted]"
	}
	for _, safe := range out {
		value = safe
	}
	return value
}

func (h *Hook) environment(w http.ResponseWriter, r *http.Request) (string, bool) {
	name := r.URL.Query().Get("environment")
	if name == "" {
		return h.o.Environments[0], true
	}
	if !slices.Contains(h.o.Environments, name) {
		problem(w, http.StatusUnprocessableEntity, fmt.Sprintf("no environment is called %q", name))
		return "", false
	}
	return name, true
}

// keep answers when the alerts are written.
func (h *Hook) keep(w http.ResponseWriter, r *http.Request, alerts []ops.Alert, signed receipt) {
	if len(alerts) == 0 {
		answered(w, answer{})
		return
	}
	replayed, err := h.store(r.Context(), alerts, signed)
	switch {
	case errors.Is(err, errFull):
		busy(w, err.Error())
	case err != nil:
		h.failed(w, r, err)
	case replayed:
		h.o.Logger.WarnContext(r.Context(), "a signed request was received again", "address", address(r))
		answered(w, answer{Replayed: true})
	default:
		answered(w, answer{Accepted: len(alerts)})
	}
}

func (h *Hook) failed(w http.ResponseWriter, r *http.Request, err error) {
	h.o.Logger.ErrorContext(r.Context(), "cannot store alerts", "error", err)
	w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	problem(w, http.StatusServiceUnavailable, "the alerts could not be stored; send them again")
}
