package alert

import (
	"cmp"
	"encoding/json"
	"errors"
	"time"

	"claudeops/internal/ops"
)

// group is the body of Alertmanager (version 4) and of Grafana, which took it over and added to it.
type group struct {
	Version      string `json:"version"`
	Status       string `json:"status"`
	Alerts       []member
	CommonLabels labels `json:"commonLabels"`
}

// member is one alert of a group.
type member struct {
	Status       string    `json:"status"`
	Labels       labels    `json:"labels"`
	Annotations  labels    `json:"annotations"`
	StartsAt     time.Time `json:"startsAt"`
	EndsAt       time.Time `json:"endsAt"`
	GeneratorURL string    `json:"generatorURL"`
	Fingerprint  string    `json:"fingerprint"`
	DashboardURL string    `json:"dashboardURL"` // Grafana
	PanelURL     string    `json:"panelURL"`     // Grafana

	Values      json.RawMessage `json:"values"`      // Grafana
	ValueString json.RawMessage `json:"valueString"` // Grafana
}

func parseGroup(body []byte) ([]ops.Alert, error) {
	var g group
	if err := decode(body, &g); err != nil {
		return nil, err
	}
	if g.Alerts == nil {
		return nil, errors.New("there are no alerts in the body: it must have a list named alerts")
	}
	if len(g.Alerts) > Most {
		return nil, ErrTooMany
	}
	out := make([]ops.Alert, 0, len(g.Alerts))
	for _, m := range g.Alerts {
		a := ops.Alert{
			Fingerprint: m.Fingerprint, Status: status(cmp.Or(m.Status, g.Status)), Labels: m.Labels, StartsAt: m.StartsAt,
			Level:   level(cmp.Or(m.Labels["severity"], m.Labels["priority"], m.Labels["level"])),
			Name:    m.Labels["alertname"],
			Summary: cmp.Or(m.Annotations["summary"], m.Annotations["description"], m.Annotations["message"]),
			URL:     cmp.Or(m.PanelURL, m.DashboardURL, m.GeneratorURL),
			Content: string(m.Values) + string(m.ValueString),
		}
		if more := m.Annotations["description"]; more != "" && more != a.Summary {
			a.Summary += ": " + more
		}
		if a.Status == ops.AlertResolved && m.EndsAt.Year() > 1 {
			a.EndsAt = &m.EndsAt
		}
		out = append(out, a)
	}
	return out, nil
}
