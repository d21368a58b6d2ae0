package broker

import (
	"context"
	"errors"
	"net/http"

	"claudeops/internal/ops"
)

const (
	actionRestart      = "restart"
	actionRedeployment = "redeployment"
)

// change is what a session did to the containers of one service.
type change struct {
	open bool            // taken down, not started again
	down map[string]bool // containers that were taken down in it
}

// plan is what a judged change reserves and remembers.
type plan struct {
	service string
	want    []ops.Reservation
	done    func()
}

// change judges a request that changes something, records it and sends it on.
func (s *Session) change(w http.ResponseWriter, r *http.Request, req request) error {
	ctx := r.Context()
	if err := s.decide(ctx, &req); err != nil {
		var no *refusal
		if errors.As(err, &no) {
			s.note(ctx, req, no)
		}
		return err
	}
	return s.forward(ctx, w, req)
}

// putBack starts a container again that this session stopped in order to remove it, as compose down does: the removal is refused, and
// without it an honest command would leave the service down. It reports whether it did.
func (s *Session) putBack(ctx context.Context, req request) bool {
	if req.method != http.MethodDelete || len(req.path) != 2 || req.path[0] != "containers" {
		return false
	}
	c, found, err := s.b.engine.container(ctx, req.path[1])
	s.mu.Lock()
	stopped := false
	for _, now := range s.changes {
		stopped = stopped || now.down[c.ID]
	}
	s.mu.Unlock()
	if err != nil || !found || !stopped {
		return false
	}
	again := request{target{method: http.MethodPost, version: req.version, path: []string{"containers", c.ID, "start"}}, route{action: start}}
	if err = s.decide(ctx, &again); err != nil {
		return false
	}
	resp, err := s.b.engine.send(ctx, again.target)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode < http.StatusBadRequest
}

// decide judges a change and reserves what it needs. The request that it leaves names the container by its full id.
func (s *Session) decide(ctx context.Context, req *request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.b.o.May(); err != nil {
		return refuse(ruleLease, "The Docker request %s is refused: %v. Report it for a human.", req.short(), err)
	}
	p, err := s.plan(ctx, req)
	if err != nil {
		return err
	}
	saved, err := s.record(ctx, *req, nil, p)
	switch {
	case err != nil:
		s.b.o.Logger.ErrorContext(ctx, "a Docker request cannot be recorded, so it is refused", "session_id", s.scope.Session.ID, "error", err)
		return refuse(ruleRecord, "This Docker request is refused because it could not be recorded: try again later.")
	case !saved.Allowed:
		no := refuse(saved.Rule, "The Docker request %s is refused: %s %s", req.short(), saved.Reason,
			"Report it for a human, or do something that needs no restart.")
		no.notified = true
		return no
	}
	if p.done != nil {
		p.done()
	}
	return nil
}

// plan finds the container that a request names and the service of the incident that it belongs to.
func (s *Session) plan(ctx context.Context, req *request) (plan, error) {
	all, err := s.b.engine.containers(ctx)
	if err != nil {
		return plan{}, err
	}
	sc := scope{services: s.scope.Services(), others: s.scope.Others}
	ref := req.path[1]
	if !nameShape().MatchString(ref) {
		return plan{}, refuse(ruleRequest, "The Docker request %s is refused: %q is not the name of a container.", req.short(), ref)
	}
	c, found, err := s.b.engine.container(ctx, ref)
	if err != nil {
		return plan{}, err
	}
	if !found {
		return plan{}, &refusal{status: http.StatusNotFound, rule: ruleOutside, reason: "No such container: " + ref}
	}
	service, problem := sc.find(c.identity(), all)
	if problem != "" {
		return plan{}, refuse(ruleOutside, "The Docker request %s is refused: the container %s may not be changed: %s. %s",
			req.short(), c.identity().name, problem, sc.tell())
	}
	if does := req.route.action.does(); sc.off(service, does) {
		return plan{}, refuse(ruleOff, "The Docker request %s is refused: the operator does not let agents %s %s. %s", req.short(), does, service,
			"Use another action of this service, or report it for a human.")
	}
	req.path = append([]string{"containers", c.ID}, req.path[2:]...)
	return s.reserve(req.route.action, c.ID, service, c.identity().project()), nil
}

// reserve says what an action on a container needs. Everything between taking a service down and starting it again is one
// redeployment.
func (s *Session) reserve(a action, id, service, project string) plan {
	now := s.changes[service]
	if now == nil {
		now = &change{down: map[string]bool{}}
		s.changes[service] = now
	}
	p := plan{service: service}
	want := func(action string, phase ops.Phase) {
		p.want = []ops.Reservation{{Service: service, Project: project, Action: action, Phase: phase}}
	}
	switch a {
	case restart:
		want(actionRestart, ops.PhaseNone)
	case stop:
		if !now.open {
			want(actionRedeployment, ops.PhaseOpen)
		}
		p.done = func() { now.open, now.down[id] = true, true }
	default:
		if now.open || !now.down[id] {
			want(actionRestart, ops.PhaseClose)
		}
		p.done = func() { now.open = false; delete(now.down, id) }
	}
	return p
}
