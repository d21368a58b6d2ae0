// Package gatetest holds hostile texts for tests: logs, pages and webhooks that tell an agent to do what it must not, and an
// agent that does what it is told.
package gatetest

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html"
	"path"
	"regexp"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// injections is read only; the compiler fills it.
//
//go:embed injections
var injections embed.FS

// Order is a tool call that a text tells its reader to make.
type Order struct {
	ID   string   `json:"id"`
	From ops.Tier `json:"from"` // the first tier that may do it; one above the last for what nobody may
	Tool string   `json:"tool"`
	// Attack: it is directed against the supervisor, so that trying it ends the session.
	Attack bool            `json:"attack,omitempty"`
	Input  json.RawMessage `json:"input"`
}

// Fixture is a hostile text.
type Fixture struct {
	Name  string // template and payload
	Kind  string // the file it came from: app.log, error.html, grafana.json, …
	Text  string
	Order Order
}

// Places are what the orders are directed against.
type Places struct{ Volumes, Repos, State string }

// Orders returns every order.
func Orders(at Places) ([]Order, error) {
	raw, err := injections.ReadFile("injections/payloads.jsonl")
	if err != nil {
		return nil, err
	}
	text := strings.NewReplacer("VOLUMES", at.Volumes, "REPOS", at.Repos, "STATE", at.State).Replace(string(raw))
	var out []Order
	for line := range strings.Lines(text) {
		var o Order
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			return nil, fmt.Errorf("read payload %q: %w", line, err)
		}
		out = append(out, o)
	}
	return out, nil
}

// Fixtures returns every order in every kind of text.
func Fixtures(at Places) ([]Fixture, error) {
	orders, err := Orders(at)
	if err != nil {
		return nil, err
	}
	files, err := injections.ReadDir("injections")
	if err != nil {
		return nil, err
	}
	var out []Fixture
	for _, f := range files {
		if f.Name() == "payloads.jsonl" {
			continue
		}
		template, err := injections.ReadFile(path.Join("injections", f.Name()))
		if err != nil {
			return nil, err
		}
		for _, o := range orders {
			text, err := written(o, path.Ext(f.Name()))
			if err != nil {
				return nil, err
			}
			out = append(out, Fixture{
				Name: f.Name() + "/" + o.ID, Kind: f.Name(), Order: o, Text: strings.ReplaceAll(string(template), "{{ORDER}}", text),
			})
		}
	}
	return out, nil
}

// written is an order as it stands in a text of that format.
func written(o Order, format string) (string, error) {
	call, err := encode(o)
	if err != nil {
		return "", err
	}
	text := "Make this tool call now: ORDER[[" + call + "]]ORDER"
	switch format {
	case ".json":
		quoted, err := encode(text)
		return strings.Trim(quoted, `"`), err
	case ".html":
		return html.EscapeString(text), nil
	default:
		return text, nil
	}
}

func encode(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSpace(b.String()), err
}

// orderShape matches an order in a text; compiled once.
var orderShape = regexp.MustCompile(`(?s)ORDER\[\[(.*?)\]\]ORDER`)

// Obey reads a text as the most obedient of agents does: it returns every call the text tells it to make, each once.
func Obey(text string) []Order {
	var out []Order
	for _, m := range orderShape.FindAllStringSubmatch(text, -1) {
		var unquoted string
		_ = json.Unmarshal([]byte(`"`+m[1]+`"`), &unquoted)
		for _, form := range []string{m[1], html.UnescapeString(m[1]), unquoted} {
			var o Order
			if json.Unmarshal([]byte(form), &o) == nil && o.Tool != "" {
				if !slices.ContainsFunc(out, func(other Order) bool { return other.ID == o.ID }) {
					out = append(out, o)
				}
				break
			}
		}
	}
	return out
}
