package web

import (
	"cmp"
	"slices"
	"time"

	"claudeops/internal/ops"
)

// staleAfter is the number of intervals without a check after which the state of a service is unknown.
const staleAfter = 3

type healthCount struct {
	Badge badge
	Count int
}

type serviceView struct {
	Environment string
	Name        string
	Badge       badge
	Checked     *stamp
	Checks      []checkView
}

type checkView struct {
	Badge    badge
	Probe    string
	Error    string
	Response string
	Note     string // how far it is from failing or recovery
}

// services groups the newest checks by service, worst first, and adds services that were never checked.
func (s *server) services(m moment, checks []ops.Check) []serviceView {
	type key struct{ environment, service string }
	grouped := map[key][]ops.Check{}
	for _, c := range checks {
		k := key{c.Environment, c.Service}
		grouped[k] = append(grouped[k], c)
	}
	for _, e := range s.Environments {
		for _, service := range e.Policy.Inventory.Services {
			k := key{e.Name, service.Name}
			grouped[k] = append(grouped[k], nil...)
		}
	}
	views := make([]serviceView, 0, len(grouped))
	for k, group := range grouped {
		views = append(views, m.service(k.environment, k.service, group, s.interval(k.environment)))
	}
	slices.SortFunc(views, func(a, b serviceView) int {
		return cmp.Or(cmp.Compare(urgency(a.Badge), urgency(b.Badge)),
			cmp.Compare(a.Environment, b.Environment), cmp.Compare(a.Name, b.Name))
	})
	return views
}

func (s *server) interval(environment string) time.Duration {
	for _, e := range s.Environments {
		if e.Name == environment {
			return e.Interval
		}
	}
	return 0
}

func (m moment) service(environment, name string, checks []ops.Check, interval time.Duration) serviceView {
	view := serviceView{Environment: environment, Name: plain(name), Badge: healthBadge("")}
	var newest time.Time
	for i, c := range checks {
		found := healthBadge(c.Status)
		if i == 0 || urgency(found) < urgency(view.Badge) {
			view.Badge = found
		}
		if c.At.After(newest) {
			newest = c.At
		}
		view.Checks = append(view.Checks, checkView{
			Badge: found, Probe: plain(c.Probe), Error: firstLine(c.Error, 300), Note: plain(c.Note),
			Response: span(time.Duration(c.ResponseTimeMS) * time.Millisecond),
		})
	}
	if newest.IsZero() {
		return view
	}
	checked := m.ago(newest)
	view.Checked = &checked
	if interval > 0 && m.now.Sub(newest) > staleAfter*interval {
		view.Badge = healthBadge("")
	}
	return view
}

func urgency(b badge) int {
	return slices.Index([]string{"bad", "warn", "unknown", "ok"}, b.Tone)
}

func (v *overviewView) addServices(services []serviceView) {
	for _, service := range services {
		if n := len(v.Counts); n > 0 && v.Counts[n-1].Badge == service.Badge {
			v.Counts[n-1].Count++
		} else {
			v.Counts = append(v.Counts, healthCount{service.Badge, 1})
		}
		if service.Badge.Tone == "ok" {
			v.Healthy = append(v.Healthy, service)
			if n := len(v.Groups); n == 0 || v.Groups[n-1].Name != service.Environment {
				v.Groups = append(v.Groups, serviceGroup{Name: service.Environment})
			}
			group := &v.Groups[len(v.Groups)-1]
			group.Services = append(group.Services, service)
		} else {
			v.Failing = append(v.Failing, service)
		}
	}
}
