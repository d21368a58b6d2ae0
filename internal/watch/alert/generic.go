package alert

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// dialect is how one kind of program writes alerts. Where it keeps their parts is a table of JSON pointers, of which the first that
// leads to a value counts.
type dialect struct {
	source string   // whose ids these are; empty: those of the form
	signs  []string // it is recognised by what one of these leads to
	prefix string   // of its ids
	fields fields
	then   func(doc any, a *ops.Alert) meaning
}

// fields say where the parts of an alert are.
type fields struct {
	id, name, service, status, severity, summary, url, startsAt, labels []string
	resolved, ignored                                                   []string // statuses that end an alert, and that say nothing new
}

// meaning is what a message is about.
type meaning int

const (
	news meaning = iota
	nothingNew
	test
)

// own is the dialect that is documented for programs that can write what they want.
func own() dialect {
	return dialect{fields: fields{
		id: []string{"/fingerprint", "/id"}, name: []string{"/name", "/title"}, service: []string{"/service"},
		status: []string{"/status", "/state"}, severity: []string{"/severity", "/level", "/labels/severity"},
		summary: []string{"/summary", "/message", "/description"}, url: []string{"/url"},
		startsAt: []string{"/starts_at"}, labels: []string{"/labels"},
	}}
}

// grouped is the dialect of Alertmanager (version 4) and of Grafana, which took it over and added to it.
func grouped() dialect {
	return dialect{fields: fields{
		id: []string{"/fingerprint"}, name: []string{"/labels/alertname"}, status: []string{"/status"},
		severity: []string{"/labels/severity", "/labels/priority", "/labels/level"},
		summary:  []string{"/annotations/summary", "/annotations/description", "/annotations/message"},
		url:      []string{"/panelURL", "/dashboardURL", "/generatorURL"}, startsAt: []string{"/startsAt"}, labels: []string{"/labels"},
	}, then: member}
}

// dialects are those of programs that are known, in the order in which they are tried.
func dialects() []dialect {
	return []dialect{
		{
			source: "pagerduty", signs: []string{"/event_action"}, fields: fields{
				id: []string{"/dedup_key"}, name: []string{"/payload/summary"}, service: []string{"/payload/component", "/payload/source"},
				status: []string{"/event_action"}, severity: []string{"/payload/severity"}, summary: []string{"/payload/summary"},
				url: []string{"/links/0/href", "/client_url"}, startsAt: []string{"/payload/timestamp"},
				labels: []string{"/payload/custom_details", "/payload/source", "/payload/group", "/payload/class"}, ignored: []string{"acknowledge"},
			},
		},
		{
			source: "zabbix", signs: []string{"/event_value", "/eventid"}, fields: fields{
				id: []string{"/p_eventid", "/event_id", "/eventid"}, name: []string{"/event_name", "/name", "/alert_subject"},
				service: []string{"/host_name", "/hosts/0/name", "/hosts/0/host"}, status: []string{"/event_value", "/value"},
				severity: []string{"/event_severity", "/severity"}, summary: []string{"/alert_message", "/event_opdata", "/event_name", "/name"},
				url: []string{"/event_url", "/zabbix_url"}, labels: []string{"/event_tags", "/tags", "/host_name", "/hosts/0/host"},
				resolved: []string{"0"},
			}, then: zabbix,
		},
		{
			source: "sentry", signs: []string{"/data/event/event_id", "/data/issue/id"}, fields: fields{
				id: []string{"/data/event/issue_id", "/data/issue/id"}, name: []string{"/data/event/title", "/data/issue/title"},
				service: []string{"/data/issue/project/slug"}, status: []string{"/action"},
				severity: []string{"/data/event/level", "/data/issue/level"},
				summary:  []string{"/data/event/culprit", "/data/issue/culprit"}, url: []string{"/data/event/web_url", "/data/issue/web_url"},
				startsAt: []string{"/data/event/datetime", "/data/issue/firstSeen"}, labels: []string{"/data/event/tags"},
				ignored: []string{"assigned", "archived", "ignored"},
			}, then: sentry,
		},
		{
			source: "sentry", signs: []string{"/data/metric_alert/id"}, prefix: "metric ", fields: fields{
				id: []string{"/data/metric_alert/id"}, name: []string{"/data/metric_alert/title", "/data/metric_alert/alert_rule/name"},
				service: []string{"/data/metric_alert/projects/0"}, status: []string{"/action"}, severity: []string{"/action"},
				summary: []string{"/data/description_text"}, url: []string{"/data/web_url"}, startsAt: []string{"/data/metric_alert/date_started"},
			},
		},
		{
			// What Uptime Kuma sends when nothing else is set up there.
			signs: []string{"/monitor", "/heartbeat", "/msg"}, prefix: "monitor ", fields: fields{
				id: []string{"/monitor/id"}, name: []string{"/monitor/name"}, service: []string{"/monitor/name"}, status: []string{"/heartbeat/status"},
				summary: []string{"/heartbeat/msg", "/msg"}, url: []string{"/monitor/url"}, resolved: []string{"1"}, ignored: []string{"2", "3"},
			}, then: kuma,
		},
	}
}

// member adds the description to one alert of a group, and its end. The one of Grafana's test button always says the same.
func member(doc any, a *ops.Alert) meaning {
	if a.Name == "TestAlert" && a.Labels["instance"] == "Grafana" && a.Summary == "Notification test" {
		return test
	}
	if more := text(doc, "/annotations/description"); more != "" && more != a.Summary {
		a.Summary += ": " + more
	}
	if end := moment(text(doc, "/endsAt")); end.Year() > 1 {
		a.EndsAt = &end
	}
	return news
}

// zabbix reads the severities of a connector, which are numbers, and leaves out what people did to a problem.
func zabbix(doc any, a *ops.Alert) meaning {
	switch text(doc, "/severity") {
	case "4", "5":
		a.Level = ops.LevelCritical
	case "1":
		a.Level = ops.LevelInfo
	}
	if text(doc, "/event_update_status") == "1" {
		return nothingNew
	}
	return news
}

// sentry names the project, which the alert of an event has in an address only. An error is no outage there.
func sentry(doc any, a *ops.Alert) meaning {
	if _, rest, found := strings.Cut(text(doc, "/data/event/url"), "/projects/"); found {
		if parts := strings.Split(rest, "/"); len(parts) > 1 {
			a.Service = cmp.Or(a.Service, parts[1])
		}
	}
	if text(doc, "/data/event/level", "/data/issue/level") == "error" {
		a.Level = ops.LevelWarning
	}
	return news
}

func kuma(doc any, a *ops.Alert) meaning {
	if at(doc, "/monitor") == nil || at(doc, "/heartbeat") == nil {
		return test
	}
	a.Level, a.Labels = ops.LevelCritical, map[string]string{"monitor": a.Name, "type": text(doc, "/monitor/type")}
	return news
}

// parse reads a body of any form.
func (b Body) parse() (Found, error) {
	if b.Sender.Form == Generic && b.isText() {
		return Found{Alerts: []ops.Alert{b.plainText()}}, nil
	}
	var out Found
	decoder := json.NewDecoder(bytes.NewReader(b.Content))
	decoder.UseNumber()
	for n := 0; ; n++ {
		var doc any
		err := decoder.Decode(&doc)
		if n > 0 && errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, b.unreadable()
		}
		entries, err := b.members(doc)
		if err != nil {
			return out, err
		}
		for _, m := range entries {
			a, means, err := b.read(m, text(doc, "/status"))
			switch {
			case err != nil:
				return out, err
			case means == test:
				out.Tests++
			case means == news:
				out.Alerts = append(out.Alerts, a)
			}
			if len(out.Alerts) > Most {
				return out, ErrTooMany
			}
		}
	}
}

// unreadable says for the sender why the body is not JSON.
func (b Body) unreadable() error {
	if len(bytes.TrimSpace(b.Content)) == 0 {
		return errors.New("the body is empty: send JSON")
	}
	var syntax *json.SyntaxError
	err := json.Unmarshal(b.Content, new(any))
	if errors.As(err, &syntax) {
		return fmt.Errorf("the body is not JSON: %s at byte %d", syntax.Error(), syntax.Offset)
	}
	return err
}

// members are the alerts of a document: those of a list in it, or, in the generic form, itself.
func (b Body) members(doc any) ([]any, error) {
	switch found := at(doc, "/alerts").(type) {
	case nil:
		if b.Sender.Form != Generic {
			return nil, errors.New("there are no alerts in the body: it must have a list named alerts")
		}
		return []any{doc}, nil
	case []any:
		return found, nil
	}
	return nil, errors.New("/alerts is no list, which does not fit")
}

// dialect is how the sender of a document writes.
func (b Body) dialect(doc any) dialect {
	if b.Sender.Form != Generic {
		return grouped()
	}
	for _, d := range dialects() {
		if slices.ContainsFunc(d.signs, func(p string) bool { return at(doc, p) != nil }) {
			return d
		}
	}
	return own()
}

// read makes an alert of a document. Whole is the status of all that came with it.
func (b Body) read(doc any, whole string) (ops.Alert, meaning, error) {
	how, said := b.dialect(doc), reading{doc: doc}
	f := how.fields
	word := cmp.Or(said.first(f.status), b.Status, whole)
	a := ops.Alert{
		Source: how.source, Status: status(word, f.resolved...),
		Level: level(cmp.Or(said.first(f.severity), b.Severity)),
		Name:  cmp.Or(said.first(f.name), b.Name), Service: said.first(f.service),
		Summary: said.first(f.summary), URL: said.first(f.url), Labels: said.labels(f.labels),
	}
	if id := said.first(f.id); id != "" {
		a.Fingerprint = how.prefix + id
	}
	a.StartsAt = moment(said.first(f.startsAt))
	if values := at(doc, "/values"); values != nil {
		raw, _ := json.Marshal(values) // it was JSON
		a.Content = string(raw)
	}
	a.Content += text(doc, "/valueString")
	means := news
	if how.then != nil {
		means = how.then(doc, &a)
	}
	a.Service = cmp.Or(a.Service, b.Service)
	switch {
	case means == news && slices.Contains(f.ignored, strings.ToLower(word)):
		return a, nothingNew, nil
	case means != news:
		return a, means, nil
	case said.err != nil:
		return a, means, said.err
	case a.Name == "" && a.Service == "" && a.Fingerprint == "" && len(a.Labels) == 0:
		return a, means, errors.New("the alert does not say what it is about: give name or service")
	}
	return a, news, nil
}

// moment reads a time; zero: it is none.
func moment(text string) time.Time {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05Z0700"} { // the second is how PagerDuty's documents write it
		if at, err := time.Parse(layout, text); err == nil {
			return at
		}
	}
	return time.Time{}
}

// isText reports whether a body is a plain text: whoever sends JSON begins it as such, or says so.
func (b Body) isText() bool {
	start := strings.TrimSpace(string(b.Content[:min(len(b.Content), 64)]))
	return start != "" && !strings.Contains(b.Type, "json") && !strings.HasPrefix(start, "{") && !strings.HasPrefix(start, "[")
}

// plainText makes an alert of a text. What it is about is in the address; else its first line names it.
func (b Body) plainText() ops.Alert {
	whole := strings.ToValidUTF8(strings.TrimSpace(string(b.Content)), "\uFFFD")
	first, _, _ := strings.Cut(whole, "\n")
	a := ops.Alert{
		Status: status(b.Status), Level: level(b.Severity), Name: b.Name, Service: cmp.Or(b.Service, b.Sender.Name), Summary: whole,
	}
	if a.Name == "" && a.Service != "" {
		a.Name = "message"
	}
	a.Name = cmp.Or(a.Name, first)
	return a
}

// reading takes texts out of a document. Its error is about the first pointer that leads to a structure and nothing else.
type reading struct {
	doc any
	err error
}

// first is the first text that pointers lead to.
func (r *reading) first(pointers []string) string {
	var structure string
	for _, p := range pointers {
		v := at(r.doc, p)
		text, ok := plain(v)
		if text != "" {
			return text
		}
		if !ok && v != nil {
			structure = p
		}
	}
	if structure != "" && r.err == nil {
		r.err = fmt.Errorf("%s is a structure, which does not fit", structure)
	}
	return ""
}

// labels collects what pointers lead to: objects, lists of names and values, and single values under the last part of their pointers.
func (r *reading) labels(pointers []string) map[string]string {
	out := map[string]string{}
	add := func(name string, v any) {
		if text, ok := plain(v); ok && name != "" {
			out[name] = text
		}
	}
	for _, p := range pointers {
		switch v := at(r.doc, p).(type) {
		case map[string]any:
			for name, value := range v {
				add(name, value)
			}
		case []any:
			for _, one := range v {
				if pair, ok := one.([]any); ok && len(pair) == 2 {
					name, _ := plain(pair[0])
					add(name, pair[1])
				}
				add(text(one, "/tag", "/key", "/name"), at(one, "/value"))
			}
		default:
			add(p[strings.LastIndex(p, "/")+1:], v)
		}
	}
	return out
}

// at is what a JSON pointer (RFC 6901, without escapes) leads to; nil: nothing. Names of members match in any case if none matches exactly.
func at(doc any, pointer string) any {
	if pointer == "" {
		return doc
	}
	part, rest, more := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	if more {
		rest = "/" + rest
	}
	switch v := doc.(type) {
	case map[string]any:
		if found, ok := v[part]; ok {
			return at(found, rest)
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if strings.EqualFold(name, part) {
				return at(v[name], rest)
			}
		}
	case []any:
		if i, err := strconv.Atoi(part); err == nil && i >= 0 && i < len(v) {
			return at(v[i], rest)
		}
	}
	return nil
}

// text is the first text that pointers lead to.
func text(doc any, pointers ...string) string {
	r := reading{doc: doc}
	return r.first(pointers)
}

// plain reads a single value as a text: senders also write numbers and truth values where a text belongs.
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
