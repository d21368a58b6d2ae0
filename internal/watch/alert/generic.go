package alert

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"claudeops/internal/ops"
)

// labels are texts by name. Senders also write numbers and truth values there, which are taken as texts.
type labels map[string]string

// UnmarshalJSON reads plain values as texts and leaves out lists and objects.
func (l *labels) UnmarshalJSON(raw []byte) error {
	var values map[string]any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&values); err != nil {
		return err
	}
	*l = labels{}
	for name, v := range values {
		if text, ok := plain(v); ok {
			(*l)[name] = text
		}
	}
	return nil
}

// word is a text that senders also write as a number or truth value.
type word string

// UnmarshalJSON reads a plain value as a text.
func (w *word) UnmarshalJSON(raw []byte) error {
	var v any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		return err
	}
	text, ok := plain(v)
	if !ok && v != nil {
		return &json.UnmarshalTypeError{Value: "structure"}
	}
	*w = word(text)
	return nil
}

func plain(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// generic is the body any program can write; most fields have a second name that others use.
type generic struct {
	Alerts []generic `json:"alerts"`

	Fingerprint word   `json:"fingerprint"`
	ID          word   `json:"id"`
	Status      word   `json:"status"`
	State       word   `json:"state"`
	Name        word   `json:"name"`
	Title       word   `json:"title"`
	Service     word   `json:"service"`
	Severity    word   `json:"severity"`
	Level       word   `json:"level"`
	Summary     word   `json:"summary"`
	Message     word   `json:"message"`
	Description word   `json:"description"`
	URL         word   `json:"url"`
	StartsAt    word   `json:"starts_at"`
	Labels      labels `json:"labels"`

	Values json.RawMessage `json:"values"`

	// What Uptime Kuma sends when nothing else is set up there.
	Heartbeat *heartbeat `json:"heartbeat"`
	Monitor   *monitor   `json:"monitor"`
	Msg       word       `json:"msg"`
}

type heartbeat struct {
	Status word `json:"status"` // 0 down, 1 up, 2 pending, 3 maintenance
	Msg    word `json:"msg"`
}

type monitor struct {
	ID   word `json:"id"`
	Name word `json:"name"`
	URL  word `json:"url"`
	Type word `json:"type"`
}

func parseGeneric(body []byte) ([]ops.Alert, error) {
	var g generic
	if err := decode(body, &g); err != nil {
		return nil, err
	}
	members := g.Alerts
	if members == nil {
		members = []generic{g}
	}
	if len(members) > Most {
		return nil, ErrTooMany
	}
	var out []ops.Alert
	for _, m := range members {
		a, told, err := m.alert()
		if err != nil {
			return nil, err
		}
		if told {
			out = append(out, a)
		}
	}
	return out, nil
}

// alert makes an alert; told is false for messages that report no state, such as a test.
func (g generic) alert() (a ops.Alert, told bool, err error) {
	if g.Monitor != nil || g.Heartbeat != nil || g.Msg != "" {
		return g.kuma()
	}
	a = ops.Alert{
		Fingerprint: string(cmp.Or(g.Fingerprint, g.ID)), Status: status(string(cmp.Or(g.Status, g.State))),
		Level: level(string(cmp.Or(g.Severity, g.Level, word(g.Labels["severity"])))),
		Name:  string(cmp.Or(g.Name, g.Title)), Service: string(g.Service),
		Summary: string(cmp.Or(g.Summary, g.Message, g.Description)), URL: string(g.URL), Labels: g.Labels,
		Content: string(g.Values),
	}
	if at, err := time.Parse(time.RFC3339, string(g.StartsAt)); err == nil {
		a.StartsAt = at
	}
	if a.Name == "" && a.Service == "" && a.Fingerprint == "" && len(a.Labels) == 0 {
		return a, false, errors.New("the alert does not say what it is about: give name or service")
	}
	return a, true, nil
}

func (g generic) kuma() (ops.Alert, bool, error) {
	if g.Monitor == nil || g.Heartbeat == nil {
		return ops.Alert{}, false, nil // its test message
	}
	a := ops.Alert{
		Status: ops.AlertFiring, Level: ops.LevelCritical, Name: string(g.Monitor.Name), Service: string(g.Monitor.Name),
		Summary: string(cmp.Or(g.Heartbeat.Msg, g.Msg)), URL: string(g.Monitor.URL),
		Labels: map[string]string{"monitor": string(g.Monitor.Name), "type": string(g.Monitor.Type)},
	}
	if g.Monitor.ID != "" {
		a.Fingerprint = "monitor " + string(g.Monitor.ID)
	}
	switch g.Heartbeat.Status {
	case "1":
		a.Status = ops.AlertResolved
	case "2", "3":
		return a, false, nil
	}
	return a, true, nil
}
