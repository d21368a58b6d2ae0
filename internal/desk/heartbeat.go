package desk

import (
	"context"
	"strings"

	"claudeops/internal/ops"
)

// Heartbeat makes the address that the job of a service calls, and returns its token, which is shown once. The former one no longer works.
// The probe may be empty where the service has only one of this type.
func (d *Desk) Heartbeat(ctx context.Context, by Person, environment, service, probe string) (ops.Heartbeat, string, error) {
	e, name, err := d.service(environment, service)
	if err != nil {
		return ops.Heartbeat{}, "", err
	}
	var known []string
	for _, p := range e.Probes {
		if p.Service == name && p.Type == ops.ProbeHeartbeat && (probe == "" || p.Name == probe) {
			known = append(known, p.Name)
		}
	}
	switch {
	case by.Via != "":
		return ops.Heartbeat{}, "", wrong("the address of a heartbeat is for people and their jobs: run claudeops services heartbeat %s", name)
	case len(known) == 0 && probe != "":
		return ops.Heartbeat{}, "", wrong("%s has no heartbeat called %q", name, probe)
	case len(known) == 0:
		return ops.Heartbeat{}, "", wrong("%s has no heartbeat: add `- {type: heartbeat, every: 24h}` to its probes, then reload", name)
	case len(known) > 1:
		return ops.Heartbeat{}, "", wrong("%s has several heartbeats: name one of %s", name, strings.Join(known, ", "))
	}
	h := ops.Heartbeat{Environment: e.Name, Service: name, Probe: known[0]}
	token, err := d.Store.AddressHeartbeat(ctx, h, by.String(), d.Clock())
	if err != nil {
		return h, "", err
	}
	d.changed()
	return h, token, nil
}
