package cloudevents

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// The kinds of events.
const (
	KindCycle    = "cycle"
	KindIncident = "incident"
	KindApproval = "approval"
	KindAction   = "action"
)

// typePrefix begins the type of every event: claudeops.cycle.ended.
const typePrefix = "claudeops."

// maxData is the size of the largest event. A report or an output that is larger is left out.
const maxData = 256 << 10

// event is an event in the JSON format of CloudEvents.
type event struct {
	SpecVersion string          `json:"specversion"`
	ID          string          `json:"id"`
	Source      string          `json:"source"`
	Type        string          `json:"type"`
	Subject     string          `json:"subject"`
	Time        time.Time       `json:"time"`
	ContentType string          `json:"datacontenttype"`
	Environment string          `json:"environment"` // an extension attribute
	Data        json.RawMessage `json:"data"`
}

// fact is one change of a row.
type fact struct {
	kind, what  string
	row         int64
	mark        int64 // tells changes of the same row apart that can happen more than once
	at          time.Time
	environment string
	data        any
}

func (f fact) id() string {
	id := fmt.Sprintf("%s-%d-%s", f.kind, f.row, f.what)
	if f.mark != 0 {
		id += fmt.Sprintf("-%d", f.mark)
	}
	return id
}

// outgoing is the fact as it is stored and sent.
func (f fact) outgoing(source string) (store.OutgoingEvent, error) {
	data, err := json.Marshal(f.data)
	if err != nil {
		return store.OutgoingEvent{}, fmt.Errorf("write event %s: %w", f.id(), err)
	}
	if len(data) > maxData {
		if data, err = shortened(data); err != nil {
			return store.OutgoingEvent{}, fmt.Errorf("shorten event %s: %w", f.id(), err)
		}
	}
	raw, err := json.Marshal(event{
		SpecVersion: "1.0", ID: f.id(), Source: source, Type: typePrefix + f.kind + "." + f.what, Subject: fmt.Sprintf("%s/%d", f.kind, f.row),
		Time: f.at.UTC(), ContentType: "application/json", Environment: f.environment, Data: data,
	})
	if err != nil {
		return store.OutgoingEvent{}, fmt.Errorf("write event %s: %w", f.id(), err)
	}
	return store.OutgoingEvent{EventID: f.id(), Kind: f.kind, Environment: f.environment, At: f.at, Data: raw}, nil
}

// shortened leaves out the fields that can be long.
func shortened(data []byte) ([]byte, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	for _, name := range []string{"report", "output", "plan", "sessions", "prompt", "before", "after"} {
		if _, given := all[name]; given {
			all[name] = json.RawMessage("null")
		}
	}
	return json.Marshal(all)
}

// facts are the changes that rows tell, in the order in which they happened.
func facts(n store.News) []fact {
	var out []fact
	add := func(f fact, at *time.Time) {
		if at != nil {
			f.at = *at
			out = append(out, f)
		}
	}
	for _, c := range n.Cycles {
		f := fact{kind: KindCycle, row: int64(c.ID), environment: c.Environment, data: api.CycleRow(c)}
		add(f.as("created"), &c.CreatedAt)
		add(f.as("started"), c.StartedAt)
		add(f.as("ended"), c.EndedAt)
		add(f.as("refuted"), c.RefutedAt)
	}
	for _, i := range n.Incidents {
		f := fact{kind: KindIncident, row: i.ID, environment: i.Environment, data: api.IncidentRow(i)}
		add(f.as("opened"), &i.OpenedAt)
		if i.ReopenedAt != nil {
			add(f.again("reopened", *i.ReopenedAt), i.ReopenedAt)
		}
		if i.ReopenedAt != nil && i.CalledAt != nil && !i.CalledAt.Before(*i.ReopenedAt) {
			add(f.again("called", *i.CalledAt), i.CalledAt)
		} else {
			add(f.as("called"), i.CalledAt)
		}
		if i.AcknowledgedAt != nil {
			add(f.again("acknowledged", *i.AcknowledgedAt), i.AcknowledgedAt)
		}
		if i.SnoozedUntil != nil && i.Status == ops.IncidentSnoozed {
			add(f.again("snoozed", *i.SnoozedUntil), &i.UpdatedAt)
		}
		if i.ResolvedAt != nil && i.Occurrences > 1 { // it may have been resolved before, and opened again
			add(f.again("resolved", *i.ResolvedAt), i.ResolvedAt)
		} else {
			add(f.as("resolved"), i.ResolvedAt)
		}
	}
	for _, a := range n.Approvals {
		f := fact{kind: KindApproval, row: a.ID, environment: a.Environment, data: api.ApprovalRow(a)}
		add(f.as("requested"), &a.RequestedAt)
		add(f.as("answered"), a.AnsweredAt)
	}
	for _, r := range n.Actions {
		f := fact{kind: KindAction, row: r.ID, environment: r.Environment, data: api.ActionRunRow(r)}
		add(f.as("requested"), &r.RequestedAt)
		add(f.as("started"), r.StartedAt)
		add(f.as("ended"), r.EndedAt)
	}
	// Changes of one row at the same time keep their order.
	slices.SortStableFunc(out, func(a, b fact) int { return cmp.Compare(a.at.UnixMicro(), b.at.UnixMicro()) })
	return out
}

func (f fact) as(what string) fact {
	f.what = what
	return f
}

func (f fact) again(what string, at time.Time) fact {
	f.what, f.mark = what, at.UnixMicro()
	return f
}

const (
	// sendTimeout bounds one delivery from the first byte to the last of the answer.
	sendTimeout = 10 * time.Second
	// mostAnswer is how much of an answer is read; the rest is not needed.
	mostAnswer = 4 << 10
	// structured is the media type of an event in which the attributes are part of the body, so that the signature covers them. JSON is
	// UTF-8 without saying so, and the SDK for JavaScript refuses a type that says it in capitals.
	structured = "application/cloudevents+json"
)

// Target is one receiver.
type Target struct {
	Name        string
	URL         string
	Secret      string   // empty: events are not signed
	Kinds       []string // empty: all
	Environment string   // empty: all
}

// wants reports whether the target gets an event.
func (t Target) wants(e store.OutgoingEvent) bool {
	return (t.Environment == "" || t.Environment == e.Environment) && (len(t.Kinds) == 0 || slices.Contains(t.Kinds, e.Kind))
}

// newClient makes a client that follows no redirects: a receiver must not send events elsewhere.
func newClient() *http.Client {
	return &http.Client{
		Timeout: sendTimeout,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: sendTimeout, ResponseHeaderTimeout: sendTimeout,
			MaxResponseHeaderBytes: 64 << 10, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// errRefused is an answer that says that the event itself is wrong: sending it again does not help.
var errRefused = errors.New("the receiver refuses the event")

// send delivers one event. Without an error the receiver has taken it.
func send(ctx context.Context, client *http.Client, t Target, e store.OutgoingEvent, now time.Time, version string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL, bytes.NewReader(e.Data))
	if err != nil {
		return fmt.Errorf("make request: %w", withoutAddress(err))
	}
	q.Header.Set("Content-Type", structured)
	q.Header.Set("User-Agent", "claudeops/"+version)
	sign(q.Header, t.Secret, e.EventID, e.Data, now)
	answer, err := client.Do(q)
	if err != nil {
		return fmt.Errorf("reach %s: %w", q.URL.Host, withoutAddress(err))
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, mostAnswer)) // so that the connection can be used again
	switch code := answer.StatusCode; {
	case code >= 200 && code <= 299:
		return nil
	case code >= 300 && code <= 399:
		return fmt.Errorf("%s redirects to another address; set the final one", q.URL.Host)
	case code == http.StatusBadRequest || code == http.StatusRequestEntityTooLarge || code == http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: %s answered HTTP %d %s", errRefused, q.URL.Host, code, http.StatusText(code))
	default:
		return fmt.Errorf("%s answered HTTP %d %s", q.URL.Host, code, http.StatusText(code))
	}
}

// withoutAddress removes the address from an error: its path and its user can be secrets.
func withoutAddress(err error) error {
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err
	}
	return err
}

// The headers of a signature, as the Standard Webhooks specification names them.
const (
	headerID        = "Webhook-Id"
	headerTime      = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
	encodedSecret   = "whsec_"
)

// sign adds the id, the time and the signature. A receiver refuses old times and ids that it has seen, so that nobody can send a message
// again.
func sign(header http.Header, secret, id string, body []byte, now time.Time) {
	at := strconv.FormatInt(now.Unix(), 10)
	header.Set(headerID, id)
	header.Set(headerTime, at)
	if secret == "" {
		return
	}
	key := []byte(secret)
	if encoded, ok := strings.CutPrefix(secret, encodedSecret); ok {
		if decoded, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			key = decoded
		}
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + at + "."))
	mac.Write(body)
	header.Set(headerSignature, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}
