package web

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"claudeops/internal/api/situation"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// activityView is one line of the activity.
type activityView struct {
	Badge   badge
	At      stamp
	Service string
	Text    textView
	Link    *pageLink
}

// longActivity is how much of a text the activity shows at once.
const longActivity = 150

// actors remembers which visitor caused the newest events, so that a page can say "You". It is lost at a restart; the name that is
// recorded with the event stays.
type actors struct {
	mu    sync.Mutex
	order []int64
	by    map[int64]string
}

const actorsKept = 500

func (a *actors) add(event int64, visitor string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by == nil {
		a.by = map[int64]string{}
	}
	a.by[event] = visitor
	if a.order = append(a.order, event); len(a.order) > actorsKept {
		delete(a.by, a.order[0])
		a.order = a.order[1:]
	}
}

func (a *actors) did(event int64, visitor string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.by[event] == visitor && visitor != ""
}

// visitor identifies the sender of a request among others with the same access: by its login, or by its name and address.
func (s *server) visitor(r *http.Request) string {
	if login, in := s.loginOf(r); in {
		return login.Digest
	}
	return caller(r).Name + " from " + peer(r)
}

// activity makes the lines of the activity: events in the words of people, and the starts of cycles.
type activity struct {
	m        moment
	you      func(event int64) bool // whether the visitor caused it
	services map[ops.CycleID]string // what a cycle was about
}

type activityLine struct {
	at   time.Time
	id   int64
	view activityView
}

// lines returns the newest lines first.
func (a activity) lines(events []ops.Event, cycles []store.CycleSummary, limit int) []activityView {
	yours, starts := a.pair(events)
	var found []activityLine
	for _, e := range events {
		if view, ok := a.event(e, yours[e.ID]); ok {
			found = append(found, activityLine{e.At, e.ID, view})
		}
	}
	oldest := time.Time{} // before it there may be events that were not read
	if len(events) >= readEvents {
		oldest = events[len(events)-1].At
	}
	for _, c := range cycles {
		if view, ok := a.start(c.Cycle, starts[c.ID]); ok && !c.CreatedAt.Before(oldest) {
			found = append(found, activityLine{at: c.CreatedAt, view: view})
		}
	}
	slices.SortStableFunc(found, func(x, y activityLine) int { return cmp.Or(y.at.Compare(x.at), cmp.Compare(y.id, x.id)) })
	var out []activityView
	for _, f := range found[:min(limit, len(found))] {
		out = append(out, f.view)
	}
	return out
}

// request is a recorded action: who sent which request, and how it ended.
type request struct {
	actor  string // the recorded name, without the address
	method string
	path   string
	status int
}

var recorded = regexp.MustCompile(`^(.*?)(?: from [^ ]+)?: ([A-Z]+) (/[^ ]*) \((\d{3})[^)]*\)$`)

func readRequest(e ops.Event) (request, bool) {
	if e.Kind != ops.EventAudit {
		return request{}, false
	}
	part := recorded.FindStringSubmatch(e.Message)
	if part == nil {
		return request{}, false
	}
	status, err := strconv.Atoi(part[4])
	return request{part[1], part[2], strings.TrimPrefix(part[3], "/api/v1"), status}, err == nil
}

// starter is the event of the person that started a cycle.
type starter struct {
	event int64
	actor string
}

// pairedWithin is how long before its request an event may have been recorded that the request caused.
const pairedWithin = 5 * time.Second

// pair finds the events that the visitor caused, and who started a cycle. An action leaves two events: what was done, and then the
// request.
func (a activity) pair(events []ops.Event) (yours map[int64]bool, starts map[ops.CycleID]starter) {
	yours, starts = map[int64]bool{}, map[ops.CycleID]starter{}
	for i, e := range events { // newest first
		r, ok := readRequest(e)
		if !ok {
			continue
		}
		if e.CycleID != nil && r.starts() {
			starts[*e.CycleID] = starter{e.ID, r.actor}
		}
		yours[e.ID] = a.you(e.ID)
		kind, found := r.leaves()
		if !found || !yours[e.ID] {
			continue
		}
		for _, o := range events[i+1:] {
			if e.At.Sub(o.At) > pairedWithin {
				break
			}
			if o.Kind == kind && strings.HasPrefix(o.Message, r.actor+" ") {
				yours[o.ID] = true
				break
			}
		}
	}
	return yours, starts
}

func (r request) starts() bool { return r.path == "/run" || r.path == "/cycles" }

// leaves is the kind of the event that says what the request did.
func (r request) leaves() (ops.EventKind, bool) {
	kinds := []struct {
		prefix string
		kind   ops.EventKind
	}{
		{"/approvals", ops.EventApproval},
		{"/incidents", ops.EventIncident},
		{"/silences", ops.EventSilence},
		{"/memor", ops.EventMemory},
		{"/services/cooldown", ops.EventCooldownCleared},
		{"/cooldowns", ops.EventCooldownCleared},
		{"/actions", ops.EventAudit},
	}
	for _, k := range kinds {
		if strings.HasPrefix(r.path, k.prefix) {
			return k.kind, true
		}
	}
	return "", false
}

// start says who started a cycle. For failed probes and alerts, the watch has recorded an event.
func (a activity) start(c ops.Cycle, by starter) (activityView, bool) {
	view := activityView{Badge: badge{"unknown", "play", "Started"}, At: a.m.stamp(c.CreatedAt), Link: a.cycleLink(c.ID)}
	who := ""
	switch c.Trigger {
	case ops.TriggerScheduled:
		who, view.Badge.Icon = "The schedule", "clock"
	case ops.TriggerManual, ops.TriggerAPI:
		who, view.Badge.Icon = a.who(by.actor, by.event > 0 && a.you(by.event)), "user"
		if by.actor == "" && c.Trigger == ops.TriggerAPI {
			who = "The API"
		}
	case ops.TriggerAlert, ops.TriggerProbe:
		return view, false
	default:
		return view, false
	}
	view.Text = textView{Short: who + " started"}
	if title := cycleTitle(c); title != c.Trigger.Title() {
		view.Text = clamp(who+" started a cycle: "+title, longActivity)
	}
	return view, true
}

func (a activity) cycleLink(id ops.CycleID) *pageLink {
	return &pageLink{cyclePath(id), fmt.Sprintf("C-%d", id)}
}

// who names a person at the beginning of a sentence.
func (a activity) who(actor string, you bool) string {
	if you {
		return "You"
	}
	name := situation.Person(plain(actor))
	if name == "an operator" {
		return "An operator"
	}
	return name
}

// event makes an event readable; false for one that another line tells, or that nobody needs here.
func (a activity) event(e ops.Event, you bool) (activityView, bool) {
	view := activityView{Badge: stateOf("", e.Level), At: a.m.stamp(e.At), Service: plain(e.Service)}
	switch {
	case e.SessionID != nil:
		view.Link = &pageLink{fmt.Sprintf("/sessions/%d", *e.SessionID), fmt.Sprintf("#%d", *e.SessionID)}
	case e.CycleID != nil:
		view.Link = a.cycleLink(*e.CycleID)
	}
	if e.Kind == ops.EventGuard && e.Level == ops.LevelInfo {
		return view, false // each session proves its walls; its own page says so
	}
	message := spoken(e.Message)
	if r, ok := readRequest(e); ok {
		text, shown := a.request(r, you)
		if !shown {
			return view, false
		}
		message, view.Badge.Icon = text, "user"
	} else if text, ok := a.personal(e, message, you); ok {
		message, view.Badge.Icon = text, "user"
	} else if text, ok := strings.CutPrefix(message, view.Service+" "); ok && view.Service != "" {
		message = text // the name is shown before the message
	} else {
		if view.Service != "" && strings.Contains(message, view.Service) {
			view.Service = "" // the sentence names it
		}
		if view.Service == "" {
			message = capital(message)
		}
	}
	if view.Badge.Icon == "user" {
		view.Service = "" // the sentence names it
	}
	view.Text = clamp(message, longActivity)
	return view, true
}

// request says what a request did that leaves no other event.
func (a activity) request(r request, you bool) (string, bool) {
	if strings.HasPrefix(r.path, "/settings/") {
		return "", false // a preview changes nothing, and what is written has an event of its own
	}
	who := a.who(r.actor, you)
	if r.status >= http.StatusBadRequest {
		whose := who + "'s"
		if you {
			whose = "Your"
		}
		return fmt.Sprintf("%s request was refused (%s)", whose, http.StatusText(r.status)), true
	}
	parts := strings.Split(strings.TrimPrefix(r.path, "/"), "/")
	if _, told := r.leaves(); told || r.starts() {
		return "", false
	}
	if len(parts) == 3 {
		switch parts[0] + " " + parts[2] {
		case "sessions stop":
			return fmt.Sprintf("%s stopped session #%s", who, parts[1]), true
		case "cycles cancel":
			return fmt.Sprintf("%s cancelled C-%s", who, parts[1]), true
		case "notifications retry":
			return fmt.Sprintf("%s sent notification %s again", who, parts[1]), true
		case "hosts drain":
			return fmt.Sprintf("%s changed whether host %s takes work", who, parts[1]), true
		}
	}
	return fmt.Sprintf("%s changed something (%s)", who, parts[0]), true
}

var answeredAt = regexp.MustCompile(` at \d{4}-\d\d-\d\dT\S*?Z?(?:[+-]\d\d:\d\d)?(: |$)`)

// personal puts an action of a person into words, if the event is one.
func (a activity) personal(e ops.Event, message string, you bool) (string, bool) {
	if e.Kind == ops.EventAudit {
		if actor, what, found := strings.Cut(message, " from command line: "); found {
			what = strings.TrimSuffix(what, " (done)")
			return a.who(actor, false) + " ran: " + what, true
		}
		if name, what, found := strings.Cut(message, ": logged "); found {
			name, _, _ = strings.Cut(name, " from ")
			return a.who(strings.TrimPrefix(name, "sign-in link of "), you) + " logged " + what, true
		}
	}
	verbs := map[ops.EventKind][]string{
		ops.EventApproval:        {" approved ", " denied "},
		ops.EventIncident:        {" acknowledged ", " resolved ", " snoozed "},
		ops.EventAudit:           {" asked for ", " approved commit "},
		ops.EventCooldownCleared: {" cleared "},
		ops.EventSilence:         {" silenced ", " ended "},
		ops.EventMemory:          {" removed ", " added "},
	}
	for _, verb := range verbs[e.Kind] {
		actor, rest, found := strings.Cut(message, verb)
		if !found || strings.Contains(actor, ":") || strings.HasPrefix(actor, "the question") {
			continue
		}
		if e.Kind == ops.EventApproval {
			about := ""
			if e.CycleID != nil && a.services[*e.CycleID] != "" {
				about = " for " + a.services[*e.CycleID]
			}
			rest = answeredAt.ReplaceAllString(rest, about+"$1")
		}
		return a.who(actor, you) + verb + rest, true
	}
	return "", false
}

// capital begins a sentence with a capital letter.
func capital(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}
