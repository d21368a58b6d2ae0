package web

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
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
	Path        string // of its page
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

// serviceEntry is one service in the list of all, before it is made readable.
type serviceEntry struct {
	environment, name string // the name as it is shown
	service           string // the name as it is stored
	badge             badge
	newest            time.Time // when it was checked last; zero: never
	checks            []ops.Check
}

// serviceList is the list of all services with the time until which it is shown.
type serviceList struct {
	mu      sync.Mutex
	until   time.Time
	entries []serviceEntry
}

const (
	// manyServices is from how many on one list serves several pages.
	manyServices = 2000
	// keepServices is how long it is shown then.
	keepServices = 5 * time.Second
)

// allServices returns every service, worst first. Nobody may change the result.
func (s *server) allServices(ctx context.Context, now time.Time) ([]serviceEntry, error) {
	s.list.mu.Lock()
	defer s.list.mu.Unlock()
	if time.Now().Before(s.list.until) {
		return s.list.entries, nil
	}
	checks, err := s.Store.LatestChecks(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("read checks: %w", err)
	}
	entries := s.listServices(now, checks)
	if len(entries) >= manyServices {
		s.list.entries, s.list.until = entries, time.Now().Add(keepServices)
	}
	return entries, nil
}

// listServices groups the newest checks by service, worst first, and adds services that were never checked.
func (s *server) listServices(now time.Time, checks []ops.Check) []serviceEntry {
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
	entries := make([]serviceEntry, 0, len(grouped))
	for k, group := range grouped {
		entries = append(entries, newServiceEntry(k.environment, k.service, group, s.interval(k.environment), now))
	}
	slices.SortFunc(entries, func(a, b serviceEntry) int {
		return cmp.Or(cmp.Compare(urgency(a.badge), urgency(b.badge)),
			cmp.Compare(a.environment, b.environment), cmp.Compare(a.name, b.name))
	})
	return entries
}

func newServiceEntry(environment, name string, checks []ops.Check, interval time.Duration, now time.Time) serviceEntry {
	e := serviceEntry{environment: environment, name: plain(name), service: name, badge: healthBadge(""), checks: checks}
	for i, c := range checks {
		if found := healthBadge(c.Status); i == 0 || urgency(found) < urgency(e.badge) {
			e.badge = found
		}
		if c.At.After(e.newest) {
			e.newest = c.At
		}
	}
	if interval > 0 && !e.newest.IsZero() && now.Sub(e.newest) > staleAfter*interval {
		e.badge = healthBadge("")
	}
	return e
}

func (s *server) interval(environment string) time.Duration {
	for _, e := range s.Environments {
		if e.Name == environment {
			return e.Interval
		}
	}
	return 0
}

// service makes a service readable.
func (m moment) service(e serviceEntry) serviceView {
	view := serviceView{Environment: e.environment, Name: e.name, Path: servicePath(e.environment, e.service), Badge: e.badge}
	for _, c := range e.checks {
		view.Checks = append(view.Checks, checkView{
			Badge: healthBadge(c.Status), Probe: plain(c.Probe), Error: firstLine(c.Error, 300), Note: plain(c.Note),
			Response: span(time.Duration(c.ResponseTimeMS) * time.Millisecond),
		})
	}
	if !e.newest.IsZero() {
		checked := m.ago(e.newest)
		view.Checked = &checked
	}
	return view
}

func urgency(b badge) int {
	return slices.Index([]string{"bad", "warn", "unknown", "ok"}, b.Tone)
}

// overviewServices is how many failing services, and how many healthy ones of an environment, the overview lists.
const overviewServices = 50

func (v *overviewView) addServices(m moment, services []serviceEntry) {
	for _, e := range services {
		if n := len(v.Counts); n > 0 && v.Counts[n-1].Badge == e.badge {
			v.Counts[n-1].Count++
		} else {
			v.Counts = append(v.Counts, healthCount{e.badge, 1})
		}
		if e.badge.Tone != "ok" {
			if len(v.Failing) < overviewServices {
				v.Failing = append(v.Failing, m.service(e))
			} else {
				v.MoreFailing++
			}
			continue
		}
		if n := len(v.Groups); n == 0 || v.Groups[n-1].Name != e.environment {
			v.Groups = append(v.Groups, serviceGroup{Name: e.environment})
		}
		group := &v.Groups[len(v.Groups)-1]
		if group.Count++; len(group.Services) < overviewServices {
			group.Services = append(group.Services, m.service(e))
		}
	}
}
