package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

const (
	actionRestart      = "restart"
	actionRedeployment = "redeployment"
	// maxCreated bounds the containers that one session creates.
	maxCreated = 16
)

// change is what a session did to the containers of one service.
type change struct {
	open     bool            // taken down, not started again
	redeploy bool            // a redeployment was reserved in this session
	members  map[string]bool // containers that were taken down or made in it
	created  int
}

// plan is what a judged change reserves and remembers.
type plan struct {
	service string
	want    []ops.Reservation
	done    func()
	heard   func(answer []byte)
}

// change judges a request that changes something, records it and sends it on.
func (s *Session) change(w http.ResponseWriter, r *http.Request, req request) error {
	ctx := r.Context()
	p, err := s.decide(ctx, &req)
	if err != nil {
		var no *refusal
		if errors.As(err, &no) {
			s.note(ctx, req, no)
		}
		return err
	}
	return s.forward(ctx, w, req, p.heard)
}

// decide judges a change and reserves what it needs. The request that it leaves names containers by their full ids.
func (s *Session) decide(ctx context.Context, req *request) (plan, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.b.o.May(); err != nil {
		return plan{}, refuse(ruleLease, "The Docker request %s is refused: %v. Report it for a human.", req.short(), err)
	}
	p, err := s.plan(ctx, req)
	if err != nil {
		return plan{}, err
	}
	saved, err := s.record(ctx, *req, nil, p)
	switch {
	case err != nil:
		s.b.o.Logger.ErrorContext(ctx, "a Docker request cannot be recorded, so it is refused", "session_id", s.scope.Session.ID, "error", err)
		return plan{}, refuse(ruleRecord, "This Docker request is refused because it could not be recorded: try again later.")
	case !saved.Allowed:
		no := refuse(saved.Rule, "The Docker request %s is refused: %s %s", req.short(), saved.Reason,
			"Report it for a human, or do something that needs no restart.")
		no.told = true
		return plan{}, no
	}
	if p.done != nil {
		p.done()
	}
	return p, nil
}

func (s *Session) plan(ctx context.Context, req *request) (plan, error) {
	all, err := s.b.engine.containers(ctx)
	if err != nil {
		return plan{}, err
	}
	sc := scope{services: s.scope.Services(), others: s.scope.Others}
	switch req.route.action {
	case create:
		return s.planCreate(ctx, req, sc, all)
	case pull:
		return s.planPull(ctx, req, sc, all)
	case connect, disconnect:
		return s.planNetwork(ctx, req, sc, all)
	default:
		return s.planContainer(ctx, req, sc, all)
	}
}

// resolve finds the container that a request names and the service of the incident that it belongs to.
func (s *Session) resolve(ctx context.Context, req *request, ref string, sc scope, all []identity) (container, string, error) {
	if !nameShape().MatchString(ref) {
		return container{}, "", refuse(ruleRequest, "The Docker request %s is refused: %q is not the name of a container.", req.short(), ref)
	}
	c, found, err := s.b.engine.container(ctx, ref)
	if err != nil {
		return c, "", err
	}
	if !found {
		return c, "", &refusal{status: http.StatusNotFound, rule: ruleOutside, reason: "No such container: " + ref}
	}
	service, problem := sc.find(c.identity(), all)
	if problem != "" {
		return c, "", refuse(ruleOutside, "The Docker request %s is refused: the container %s may not be changed: %s. %s",
			req.short(), c.identity().name, problem, sc.tell())
	}
	s.remember(service, c)
	return c, service, nil
}

// remember keeps what a container was, so that its successor can be compared with it after it is gone.
func (s *Session) remember(service string, c container) {
	if s.seen[service] == nil {
		s.seen[service] = map[string]container{}
	}
	if _, ok := s.seen[service][c.ID]; !ok {
		s.seen[service][c.ID] = c
	}
}

func (s *Session) of(service string) *change {
	c := s.changes[service]
	if c == nil {
		c = &change{members: map[string]bool{}}
		s.changes[service] = c
	}
	return c
}

func (s *Session) planContainer(ctx context.Context, req *request, sc scope, all []identity) (plan, error) {
	c, service, err := s.resolve(ctx, req, req.path[1], sc, all)
	if err != nil {
		return plan{}, err
	}
	if does := req.route.action.does(); sc.off(service, does) {
		return plan{}, refuse(ruleOff, "The Docker request %s is refused: the operator does not let agents %s %s. %s", req.short(), does, service,
			"Use another action of this service, or report it for a human.")
	}
	req.path = append([]string{"containers", c.ID}, req.path[2:]...)
	if req.route.action == stop || req.route.action == remove {
		if err := s.keep(ctx, req, service, c); err != nil {
			return plan{}, err
		}
	}
	if req.route.action == rename {
		if err := checkRename(*req, c.identity(), sc, all); err != nil {
			return plan{}, err
		}
	}
	return s.planAction(req.route.action, c.ID, service, c.identity().project()), nil
}

// planAction says what an action on a container reserves. Everything between taking a service down and starting it again is one
// redeployment.
func (s *Session) planAction(a action, id, service, project string) plan {
	now := s.of(service)
	p := plan{service: service}
	want := func(action string, half ops.Half) {
		p.want = []ops.Reservation{{Service: service, Project: project, Action: action, Half: half}}
	}
	switch {
	case a == restart:
		want(actionRestart, ops.HalfNone)
	case (a == start || a == unpause) && now.open:
		want(actionRestart, ops.HalfClose)
		p.done = func() { now.open = false; delete(now.members, id) }
	case (a == start || a == unpause) && now.redeploy && now.members[id]:
		p.done = func() { delete(now.members, id) }
	case a == start || a == unpause:
		want(actionRestart, ops.HalfClose)
	case a != stop && now.members[id], now.open:
		p.done = func() { now.members[id] = true }
	default:
		want(actionRedeployment, ops.HalfOpen)
		p.done = func() { now.open, now.redeploy, now.members[id] = true, true, true }
	}
	return p
}

// checkRename lets a container take only names that belong to it.
func checkRename(req request, c identity, sc scope, all []identity) error {
	wanted := req.query.Get("name")
	renamed := c
	renamed.name = wanted
	_, problem := sc.find(renamed, all)
	if problem != "" || !fits(wanted, c) || wanted == "" {
		return refuse(ruleOutside, "The Docker request %s is refused: %q is not a name that the container %s may have. Keep its name.",
			req.short(), wanted, c.name)
	}
	return nil
}

// planCreate compares a new container with those of the same service.
func (s *Session) planCreate(ctx context.Context, req *request, sc scope, all []identity) (plan, error) {
	fresh := container{Config: req.body, Name: plainName(req.query.Get("name"))}
	id := fresh.identity()
	service, problem := sc.find(id, all)
	if problem != "" {
		return plan{}, refuse(ruleOutside, "A container %q is not created: %s. %s", id.name, problem, sc.tell())
	}
	now := s.of(service)
	if now.created >= maxCreated {
		return plan{}, refuse(ruleNever, "A container %q is not created: this session has created %d already.", id.name, now.created)
	}
	if err := s.rememberAll(ctx, service, sc, all); err != nil {
		return plan{}, err
	}
	ref, _ := req.body["Image"].(string)
	if !imageShape().MatchString(ref) || strings.Contains(ref, "..") || strings.Contains(ref, "//") {
		return plan{}, refuse(rulePower, "A container %q is not created: its image is not named.", id.name)
	}
	base, err := s.b.engine.defaults(ctx, ref)
	if err != nil {
		return plan{}, err
	}
	if err := s.compare(req, id, service, base); err != nil {
		return plan{}, err
	}
	for _, old := range s.seen[service] { // compose makes the new container before it takes down the old one
		if here := slices.ContainsFunc(all, func(i identity) bool { return i.id == old.ID }); here && fits(id.name, old.identity()) {
			if err := s.keep(ctx, req, service, old); err != nil {
				return plan{}, err
			}
		}
	}
	p := plan{service: service}
	p.done = func() { now.created++ }
	p.heard = func(text []byte) {
		var made struct {
			ID string `json:"Id"`
		}
		if json.Unmarshal(text, &made) == nil && made.ID != "" {
			s.mu.Lock()
			defer s.mu.Unlock()
			now.members[made.ID] = true
		}
	}
	return p, nil
}

// rememberAll looks at all containers of a service.
func (s *Session) rememberAll(ctx context.Context, service string, sc scope, all []identity) error {
	for _, i := range all {
		if found, _ := sc.find(i, all); found != service || s.of(service).members[i.id] {
			continue
		}
		c, found, err := s.b.engine.container(ctx, i.id)
		if err != nil {
			return err
		}
		if found {
			s.remember(service, c)
		}
	}
	return nil
}

// compare finds a container of the service that had all the power that the new one asks for.
func (s *Session) compare(req *request, id identity, service string, base defaults) error {
	var why error
	for _, key := range slices.Sorted(maps.Keys(s.seen[service])) {
		old := s.seen[service][key]
		was := old.identity()
		if !fits(id.name, was) || id.service() != was.service() || id.project() != was.project() {
			continue
		}
		err := newPower(req.body, old, base)
		if err == nil {
			fill(req.body, old)
			return nil
		}
		why = err
	}
	if why == nil {
		return refuse(rulePower, "A container %q is not created: no container of %s is known that it would replace. Report it for a human.",
			id.name, service)
	}
	return refuse(rulePower, "A container %q is not created: it may have no more power than the one it replaces, and %v. %s",
		id.name, why, "Keep what the replaced container has, or report it for a human.")
}

// fill states what the engine's own settings would otherwise decide.
func fill(body object, old container) {
	host, _ := body["HostConfig"].(object)
	if host == nil {
		host = object{}
		body["HostConfig"] = host
	}
	if was := old.HostConfig["CgroupnsMode"]; isEmpty(host["CgroupnsMode"]) && !isEmpty(was) {
		host["CgroupnsMode"] = was
	}
	if was, _ := old.HostConfig["Runtime"].(string); isEmpty(host["Runtime"]) && !plainRuntime(was) {
		host["Runtime"] = was // the engine's own may keep less from the host
	}
	if was := old.Config["NetworkDisabled"]; !isEmpty(was) {
		body["NetworkDisabled"] = was
	}
	if was := old.Config["User"]; isEmpty(body["User"]) && !isEmpty(was) {
		body["User"] = was // the image may become another one after it was looked at
	}
}

// plainRuntime reports runtimes that engines use without being told to.
func plainRuntime(name string) bool {
	return slices.Contains([]string{"", "oci", "runc", "crun", "io.containerd.runc.v2"}, name)
}

// planPull lets only images come that the services of the incident use.
func (s *Session) planPull(ctx context.Context, req *request, sc scope, all []identity) (plan, error) {
	wanted := req.query.Get("fromImage")
	for _, i := range all {
		if service, _ := sc.find(i, all); service != "" {
			if err := s.rememberAll(ctx, service, sc, all); err != nil {
				return plan{}, err
			}
		}
	}
	for service, known := range s.seen {
		for _, c := range known {
			was, _ := c.Config["Image"].(string)
			if wanted != "" && was != "" && !isImageID(was) && Repository(was) == Repository(wanted) {
				return plan{service: service}, nil
			}
		}
	}
	return plan{}, refuse(ruleOutside, "The image %q is not pulled: no service of this incident uses its repository. %s", wanted, sc.tell())
}

// planNetwork lets compose put a container that it has just made into the networks of the replaced one.
func (s *Session) planNetwork(ctx context.Context, req *request, sc scope, all []identity) (plan, error) {
	known := map[string]bool{"Container": true, "EndpointConfig": req.route.action == connect, "Force": req.route.action == disconnect}
	for field := range req.body {
		if !known[field] {
			return plan{}, refuse(ruleNever, "The Docker request %s is refused: the field %q is not known.", req.short(), field)
		}
	}
	ref, _ := req.body["Container"].(string)
	c, service, err := s.resolve(ctx, req, ref, sc, all)
	if err != nil {
		return plan{}, err
	}
	if !s.of(service).members[c.ID] {
		return plan{}, refuse(ruleNever,
			"The Docker request %s is refused: the networks of a container change only while it is replaced.", req.short())
	}
	req.body["Container"] = c.ID
	why := fmt.Errorf("no container of %s is known", service)
	for id, old := range s.seen[service] {
		if id == c.ID && len(s.seen[service]) > 1 {
			continue // what it has now says nothing about what it may have
		}
		if why = old.endpoint(req.path[1], req.body["EndpointConfig"]); why == nil {
			return plan{service: service}, nil
		}
	}
	return plan{}, refuse(rulePower, "The Docker request %s is refused: %v.", req.short(), why)
}
