package web

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"claudeops/internal/access"
	"claudeops/internal/api"
	"claudeops/internal/config/edit"
	"claudeops/internal/decide/rehearse"
	"claudeops/internal/desk"
	"claudeops/internal/ops"
)

// settingView is a form that changes one thing in the configuration: its fields, then what it would write, then what it wrote. A removal
// has no fields.
type settingView struct {
	Title    string
	Lead     string
	Back     option
	Types    []option // the kinds of probes
	Action   string
	Hidden   map[string]string
	Fields   []input
	Word     string // of the button that writes
	Problem  string
	File     string
	Draft    *draftView
	Saved    bool
	Curl     string // of a new heartbeat
	Next     option // where to go on
	SendTest bool
}

// draftView is what a form would write.
type draftView struct {
	Line   int
	Diff   []diffLine
	Added  string
	Locked string // why it can only be copied
	Notes  []string
	Tried  string           // what its probe finds now; empty: it was not asked
	Failed bool             // that is nothing good
	Would  *rehearse.Report // what it would have changed; nil: nothing
}

// diffLine is one line of the file: new, gone, or as it was.
type diffLine struct {
	Number int
	Sign   string
	Text   string
}

// setting is what a form asks for.
type setting struct {
	view   settingView
	change edit.Change
	target string
	id     string // under which the target is kept until it is saved
	wrong  error  // why there is no such form
}

// settingForm makes a form from a request.
type settingForm func(s *settings, r *http.Request) setting

// newService adds a service, with a first probe or none.
func newService(s *settings, r *http.Request) setting {
	f := s.setting(r, "/settings/services/new", "")
	kind := f.addTypes(cmp.Or(asked(r, "type"), "http"), append(edit.ProbeTypes(), "none"))
	f.view.Title, f.view.Back = "Add a service", option{Word: "Services", Path: "/services"}
	f.view.Lead = "A name, and how the supervisor finds out whether it works."
	f.view.Fields = append([]input{{Name: "name", Label: "Name", Required: true, Max: desk.MaxName}}, probeFields(kind)...)
	f.change.Service = &edit.Service{Name: asked(r, "name")}
	if kind != "none" {
		f.change.Service.Probe = askedProbe(r, kind)
	}
	f.view.Next = option{Word: plain(f.change.Service.Name), Path: servicePath(f.change.Environment, f.change.Service.Name)}
	return f
}

// newProbe adds a probe to a service.
func newProbe(s *settings, r *http.Request) setting {
	name := r.PathValue("name")
	f := s.setting(r, "/settings/services/"+url.PathEscape(name)+"/probes/new", name)
	kind := f.addTypes(cmp.Or(asked(r, "type"), "http"), edit.ProbeTypes())
	f.view.Title, f.view.Lead = "Add a probe of "+plain(name), "One more way to find out whether it works."
	f.view.Fields, f.change.Probe = probeFields(kind), askedProbe(r, kind)
	return f
}

// oldProbe changes a probe of a service.
func oldProbe(s *settings, r *http.Request) setting {
	f, was := s.probeSetting(r, "")
	f.view.Title, f.view.Lead = "Change a probe of "+plain(f.change.Name), "Only the values that differ are written."
	if f.wrong == nil && !was.Plain {
		f.wrong = desk.WrongField("", fmt.Sprintf("this probe holds more than a form can write: change it in line %d of the file", was.Line))
	}
	if f.wrong != nil {
		return f
	}
	f.view.Fields, f.change.Probe = probeFields(was.Type), askedProbe(r, was.Type)
	for i := range f.view.Fields {
		f.view.Fields[i].Value = *was.Field(f.view.Fields[i].Name)
	}
	return f
}

// noProbe removes a probe.
func noProbe(s *settings, r *http.Request) setting {
	f, was := s.probeSetting(r, "/remove")
	f.view.Title, f.view.Word, f.change.Remove = "Remove a probe of "+plain(f.change.Name), "Remove", true
	f.view.Lead = plain(probeWords(was)) + ". What it found so far stays recorded."
	return f
}

// probeSetting begins a form about a probe that is in the file.
func (s *settings) probeSetting(r *http.Request, after string) (setting, edit.Written) {
	name := r.PathValue("name")
	f := s.setting(r, "/settings/services/"+url.PathEscape(name)+"/probes/"+url.PathEscape(r.PathValue("number"))+after, name)
	f.change.At, _ = strconv.Atoi(r.PathValue("number"))
	probes, err := s.written(f.change.Environment, name)
	if err == nil && (f.change.At < 1 || f.change.At > len(probes)) {
		err = desk.WrongField("", "there is no such probe in the file: open the page of the service again")
	}
	if f.wrong = err; err != nil {
		return f, edit.Written{}
	}
	return f, probes[f.change.At-1]
}

// written are the probes of a service as they stand in the configuration file.
func (s *site) written(environment, service string) ([]edit.Written, error) {
	if s.ConfigFile == nil {
		return nil, nil
	}
	file, err := s.ConfigFile.Read()
	if err != nil {
		return nil, err
	}
	out, err := edit.Probes(file.Content, environment, service)
	if err != nil {
		return nil, desk.WrongField("", err.Error())
	}
	return out, nil
}

// probeWords says which probe it is.
func probeWords(w edit.Written) string {
	what := cmp.Or(w.URL, w.Address, w.Container)
	if w.Every != "" {
		what = "every " + w.Every
	}
	return strings.TrimSpace(w.Type + " " + what)
}

// noService removes a service.
func noService(s *settings, r *http.Request) setting {
	name := r.PathValue("name")
	f := s.setting(r, "/settings/services/"+url.PathEscape(name)+"/remove", name)
	f.view.Title, f.view.Word, f.change.Remove = "Remove "+plain(name), "Remove", true
	f.view.Lead = "Nobody looks at it any more. What is recorded about it stays."
	f.view.Next = option{Word: "Services", Path: "/services"}
	return f
}

// noTarget removes somebody who is told.
func noTarget(s *settings, r *http.Request) setting {
	f := s.setting(r, "/settings/notifications/"+url.PathEscape(r.PathValue("id"))+"/remove", "")
	f.view.Back = option{Word: "Notifications", Path: "/notifications"}
	f.view.Title, f.view.Word, f.view.Next = "Remove a notification target", "Remove", f.view.Back
	f.change, f.target = edit.Change{Remove: true}, r.PathValue("id")
	held, err := s.desk.Removable()
	i := slices.IndexFunc(held, func(t desk.Target) bool { return t.ID == f.target })
	if f.wrong = err; err == nil && i >= 0 {
		f.view.Lead = plain(held[i].Name) + " is told nothing any more."
	}
	return f
}

// newTarget adds somebody who is told.
func newTarget(s *settings, r *http.Request) setting {
	f := s.setting(r, "/settings/notifications/new", "")
	f.view.Title, f.view.Back = "Add a notification target", option{Word: "Notifications", Path: "/notifications"}
	f.view.Lead = "Who is told. The URL is a secret: it goes into a file that only the daemon can read, and is not shown again."
	f.view.Fields = []input{{
		Name: "target", Label: "URL", Kind: "secret", Required: true, Max: desk.MaxObservation,
		Hint: "ntfys://ntfy.sh/a-name-nobody-guesses, tgram://token/chat, or any other URL of Apprise",
	}}
	f.change = edit.Change{}
	f.target, f.id = s.typed.keep(asked(r, "target"), asked(r, "kept"), s.person(r), s.Clock())
	if f.id != "" {
		f.view.Hidden["kept"], f.view.Fields[0].Required = f.id, false
		f.view.Fields[0].Hint = "Kept for a quarter of an hour. Type another one to replace it."
	}
	f.view.Next, f.view.SendTest = f.view.Back, true
	return f
}

// newTrust sets how far a service, or an environment, is trusted at most.
func newTrust(s *settings, r *http.Request) setting {
	f := s.setting(r, "/settings/trust", asked(r, "service"))
	f.view.Hidden["service"] = f.change.Name
	f.view.Title = "Trust in " + plain(cmp.Or(f.change.Name, f.change.Environment))
	f.view.Lead = "The highest level that the configuration allows."
	if f.change.Name == "" {
		f.view.Back = option{Word: "Configuration", Path: "/config"}
		f.view.Next = f.view.Back
	}
	f.change.Trust = asked(r, "trust")
	f.view.Fields = []input{trustField(cmp.Or(f.change.Trust, string(ops.TrustSuggest)))}
	return f
}

func trustField(current string) input {
	in := input{Name: "trust", Label: "Highest level", Kind: "select", Required: true}
	for _, l := range ops.TrustLevels() {
		in.Choices = append(in.Choices, choice{Value: string(l), Word: string(l) + ": " + trustMeans(l), Chosen: string(l) == current})
	}
	return in
}

// setting begins a form about a service, or about all.
func (s *settings) setting(r *http.Request, action, service string) setting {
	e := cmp.Or(asked(r, "environment"), s.Environments[0].Name)
	page := option{Word: plain(service), Path: servicePath(e, service)}
	return setting{
		view:   settingView{Word: "Save", Action: action, Back: page, Next: page, Hidden: map[string]string{"environment": e}},
		change: edit.Change{Environment: e, Name: service},
	}
}

// addTypes adds the links between the kinds of probes, and returns the chosen one.
func (f *setting) addTypes(kind string, kinds []string) string {
	words := map[string]string{"http": "Web page", "tcp": "Port", "container": "Container", "heartbeat": "Heartbeat", "none": "No probe"}
	for _, k := range kinds {
		query := url.Values{"type": {k}, "environment": {f.change.Environment}}
		f.view.Types = append(f.view.Types, option{Word: words[k], Path: f.view.Action + "?" + query.Encode(), Current: k == kind})
	}
	f.view.Hidden["type"] = kind
	return kind
}

// probeFields are the fields of a kind of probe.
func probeFields(kind string) []input {
	interval := input{Name: "interval", Label: "How often", Max: 20, Hint: "Such as 30s, which is the default"}
	switch kind {
	case "http":
		return []input{
			{Name: "url", Label: "URL", Required: true, Max: 500, Hint: "Such as http://127.0.0.1:8081/health"},
			{Name: "expect_status", Label: "Status code", Max: 20, Hint: "Such as 200; without one any 2xx or 3xx is right"},
			{Name: "expect_body", Label: "Text of the page", Max: 200, Hint: "What the answer must contain"},
			interval,
		}
	case "tcp":
		return []input{{Name: "address", Label: "Host and port", Required: true, Max: 300, Hint: "Such as 127.0.0.1:5432"}, interval}
	case "container":
		return []input{{Name: "container", Label: "Name of the container", Required: true, Max: 200}, interval}
	case ops.ProbeHeartbeat:
		return []input{
			{
				Name: "every", Label: "How often the job runs", Required: true, Max: 20,
				Hint: "Such as 24h. The address that it calls is shown after saving",
			},
			{Name: "grace", Label: "How late it may be", Max: 20, Hint: "1h by default"},
		}
	}
	return nil
}

// askedProbe reads the fields that a kind of probe has, and no others.
func askedProbe(r *http.Request, kind string) *edit.Probe {
	p := &edit.Probe{Type: kind}
	for _, in := range probeFields(kind) {
		*p.Field(in.Name) = asked(r, in.Name)
	}
	return p
}

// asked returns a field as it was typed: what does not belong into it is refused later, and not taken out.
func asked(r *http.Request, name string) string { return strings.TrimSpace(r.FormValue(name)) }

// mayConfigure reports whether a visitor sees the forms.
func (s *site) mayConfigure(r *http.Request) bool {
	return s.ConfigFile != nil && caller(r).May(access.Administer)
}

// showSetting shows the form as it begins: a removal with what it would do.
func (s *settings) showSetting(form settingForm) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if by := caller(r); !by.May(access.Administer) {
			s.refuse(w, r, http.StatusForbidden, access.Refusal(by.Role, access.Administer))
			return
		}
		f := form(s, r)
		if f.wrong == nil && f.change.Remove {
			s.preview(r, &f)
		}
		s.renderSetting(w, r, http.StatusOK, f, f.wrong)
	}
}

// rehearsed is what a draft would have changed. A preview without it is better than none.
func (s *settings) rehearsed(ctx context.Context, d desk.Draft) *rehearse.Report {
	if s.Rehearse == nil || d.Path == "" {
		return nil
	}
	report, err := s.Rehearse(ctx, d)
	if err != nil {
		s.Logger.WarnContext(ctx, "rehearse a draft of the configuration failed", "error", err)
		return nil
	}
	if report.Equal {
		return nil
	}
	return &report
}

// tried says what the probe of a draft finds now.
func (s *settings) tried(ctx context.Context, d desk.Draft) (text string, failed bool) {
	if s.Try == nil {
		return "", false
	}
	c, tried := s.Try(ctx, d)
	switch {
	case !tried:
		return "", false
	case c.Status == ops.Healthy:
		return "Checked now: healthy, after " + span(time.Duration(c.ResponseTimeMS)*time.Millisecond) + ".", false
	}
	return "Checked now: " + plain(cmp.Or(c.Error, string(c.Status))) + ". Save it all the same?", true
}

// changeSetting shows what a form would write and what that would have changed, or writes it.
func (s *settings) changeSetting(form settingForm) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f, seen := form(s, r), r.PostFormValue("seen")
		if f.wrong == nil && r.PostFormValue("step") != "save" {
			s.preview(r, &f)
		}
		if f.wrong != nil || r.PostFormValue("step") != "save" {
			s.renderSetting(w, r, http.StatusOK, f, f.wrong)
			return
		}
		// What is written stays written when the visitor goes away.
		saved, err := s.desk.Save(context.WithoutCancel(r.Context()), by(r), f.change, f.target, seen)
		if err == nil {
			f.view.Saved, f.view.Draft = true, s.draftView(saved.Draft)
			s.typed.forget(f.id)
			if saved.Beat != "" {
				f.view.Curl = api.HeartbeatCall(s.Address, saved.Beat).Curl
			}
		}
		s.renderSetting(w, r, http.StatusOK, f, err)
	}
}

// preview adds what the form would write.
func (s *settings) preview(r *http.Request, f *setting) {
	draft, err := s.desk.Draft(f.change, f.target)
	if f.wrong = err; err != nil {
		return
	}
	f.view.Draft = s.draftView(draft)
	f.view.Draft.Would = s.rehearsed(r.Context(), draft)
	f.view.Draft.Tried, f.view.Draft.Failed = s.tried(r.Context(), draft)
}

// renderSetting shows the form, with what is wrong beside its field.
func (s *settings) renderSetting(w http.ResponseWriter, r *http.Request, status int, f setting, err error) {
	w.Header().Set("Cache-Control", "no-store")
	text := ""
	switch {
	case refused(err, "Nothing was written.", func(problem string) { text = problem }):
		status = http.StatusUnprocessableEntity
	case err != nil:
		s.Logger.ErrorContext(r.Context(), "change the configuration file failed", "error", err)
		status, text = http.StatusInternalServerError, "Nothing was written: "+plain(err.Error())+"."
	}
	beside := slices.IndexFunc(f.view.Fields, func(in input) bool { return in.Name == desk.Field(err) })
	for i := range f.view.Fields {
		in := &f.view.Fields[i]
		if in.Kind != "secret" && in.Kind != "select" && r.Method == http.MethodPost {
			in.Value = r.FormValue(in.Name)
		}
		if i == beside {
			in.Problem = text
		}
	}
	if beside < 0 {
		f.view.Problem = text
	}
	if f.view.Draft != nil {
		for _, in := range f.view.Fields {
			if in.Kind != "secret" {
				f.view.Hidden[in.Name] = r.FormValue(in.Name)
			}
		}
	}
	if s.ConfigFile != nil {
		file, err := s.ConfigFile.Read()
		if err != nil {
			s.fail(w, r, "configuration file", err)
			return
		}
		f.view.File, f.view.Hidden["seen"] = plain(file.Path), file.Digest
	}
	nav := "services"
	if f.view.SendTest || f.view.Back.Path == "/config" {
		nav = "config"
	}
	s.render(w, r, status, "setting", page{Title: f.view.Title, Nav: nav, Static: true, Body: f.view})
}

// draftView shows a draft as a small diff. Lines around it are left out if they may hold secrets that the daemon does not know yet.
func (s *settings) draftView(d desk.Draft) *draftView {
	view := &draftView{Line: d.Line, Added: d.Added, Locked: plain(d.Locked)}
	around := 2
	if d.Edited {
		around = 0
		view.Notes = append(view.Notes, "The file was changed after the daemon read it. Saving puts these changes into effect too.")
	}
	if !bytes.Equal(d.Before(), d.Result.Content) {
		view.Diff = diffOf(d.Before(), d.Result.Content, around, s.redacted)
	}
	switch {
	case d.Target != "" && d.Change.Remove:
		view.Notes = append(view.Notes, "The URL goes out of "+plain(d.Targets)+".")
	case d.Target != "":
		view.Notes = append(view.Notes, "The URL goes into "+plain(d.Targets)+", which only the user of the daemon can read.")
	}
	if p := d.Probe(); p != nil && p.Type == "container" {
		view.Notes = append(view.Notes,
			"A service with a container has the built-in actions restart, start and stop. Its trust says who may use them.")
	}
	if len(s.Environments) > 1 && d.Target == "" {
		view.Notes = append(view.Notes, "Lines outside of `environments` hold for every environment that has none of its own.")
	}
	return view
}

func (s *settings) redacted(text string) string {
	if s.Redact != nil {
		text = s.Redact(text)
	}
	return plain(text)
}

// diffOf is what differs between two contents, with some lines around it.
func diffOf(before, after []byte, around int, show func(string) string) []diffLine {
	old, now := bytes.Split(before, []byte("\n")), bytes.Split(after, []byte("\n"))
	head := 0
	for head < min(len(old), len(now)) && bytes.Equal(old[head], now[head]) {
		head++
	}
	tail := 0
	for tail < min(len(old), len(now))-head && bytes.Equal(old[len(old)-1-tail], now[len(now)-1-tail]) {
		tail++
	}
	var out []diffLine
	add := func(sign string, lines [][]byte, from, to int) {
		for i := max(from, 0); i < min(to, len(lines)); i++ {
			if text := strings.TrimRight(string(lines[i]), "\r"); text != "" || i < len(lines)-1 {
				out = append(out, diffLine{i + 1, sign, show(text)})
			}
		}
	}
	add("", now, head-around, head)
	add("-", old, head, len(old)-tail)
	add("+", now, head, len(now)-tail)
	add("", now, len(now)-tail, len(now)-tail+around)
	return out
}

// keptSecrets is how many secrets are kept between preview and saving, and how long.
const (
	keptSecrets    = 50
	keptSecretsFor = 15 * time.Minute
)

// typedSecrets keeps what was typed and must not stand on a page, from its preview until it is saved.
type typedSecrets struct {
	mu   sync.Mutex
	held map[string]typedSecret
}

type typedSecret struct {
	value, by string
	until     time.Time
}

// keep keeps a secret that was typed, or finds the one that was kept before under an id for the same person.
func (k *typedSecrets) keep(value, id, by string, now time.Time) (secret, kept string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, one := range k.held {
		if !one.until.After(now) || len(k.held) >= keptSecrets && value != "" {
			delete(k.held, id)
		}
	}
	if value != "" {
		id = rand.Text()
		k.held[id] = typedSecret{value, by, now.Add(keptSecretsFor)}
	}
	if one, found := k.held[id]; found && one.by == by {
		return one.value, id
	}
	return "", ""
}

func (k *typedSecrets) forget(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.held, id)
}

// trustView is how far a service is trusted, with the buttons that change it.
type trustView struct {
	api.Trust
	Change []question
	// SetCeiling is the field of the form that changes the highest level in the configuration; nil if the visitor may not.
	SetCeiling *input
}

// addTrust adds how far the service is trusted, if it is configured.
func (s *services) addTrust(ctx context.Context, view *serviceDetail) error {
	t, err := s.desk.TrustedService(ctx, view.Environment, view.Name)
	if _, unknown := desk.Problem(err); unknown {
		return nil
	}
	if err != nil {
		return err
	}
	view.Trust = &trustView{Trust: api.TrustRow(t)}
	levels := ops.TrustLevels()
	at := slices.Index(levels, ops.Trust(view.Trust.Level))
	if up, more := t.Level.Next(); more && !t.Ceiling.Below(up) {
		view.Trust.Change = append(view.Trust.Change, trustQuestion(t, up, "Raise", "arrow-up"))
	}
	if view.AddProbe != "" {
		view.Trust.SetCeiling = new(trustField(string(t.Ceiling)))
	}
	if at > 0 {
		view.Trust.Change = append(view.Trust.Change, trustQuestion(t, levels[at-1], "Lower", "arrow-down"))
	}
	return nil
}

func trustQuestion(t desk.Trusted, to ops.Trust, verb, icon string) question {
	return question{
		ID: "trust-" + string(to), Button: fmt.Sprintf("%s to %s", verb, to), Icon: icon, Style: "plain",
		Title: fmt.Sprintf("%s the trust in %s to %s?", verb, plain(t.Service), to), Text: trustMeans(to),
		Action: "/services/trust", Yes: verb, No: "Cancel",
		Hidden: map[string]string{"environment": t.Environment, "service": t.Service, "level": string(to)},
		Fields: []input{{Name: "reason", Label: "Reason", Kind: "area", Max: desk.MaxReason}},
	}
}

// trustMeans says what a level lets happen.
func trustMeans(t ops.Trust) string {
	switch t {
	case ops.TrustWatch:
		return "No agent starts for it. Probes run, and people are told."
	case ops.TrustSuggest:
		return "Tier 1 looks and proposes. Nothing is changed."
	case ops.TrustAsk:
		return "Every repair starts after approval."
	case ops.TrustRepair:
		return "Tier 2 repairs. Tier 3 starts after approval."
	case ops.TrustFull:
	}
	return "Tier 2 and Tier 3 repair without approval."
}

// setTrust changes how far a service is trusted.
func (s *services) setTrust(r *http.Request) (string, error) {
	environment, service := r.PostFormValue("environment"), r.PostFormValue("service")
	_, err := s.desk.Trust(r.Context(), by(r), desk.TrustChange{
		Environment: environment, Service: service, Level: r.PostFormValue("level"), Reason: reason(r),
	})
	return servicePath(environment, service) + "?done=trusted", err
}

// reflexView is an earned reflex, with the buttons that switch it.
type reflexView struct {
	api.EarnedReflex
	Case   string
	Change []question
}

// addReflexes adds the earned reflexes of a service.
func (s *services) addReflexes(ctx context.Context, view *serviceDetail) error {
	all, err := s.desk.Reflexes(ctx, view.Environment, view.Name)
	if _, unknown := desk.Problem(err); unknown {
		return nil
	}
	for _, r := range all {
		v := reflexView{EarnedReflex: api.ReflexRow(r), Case: r.Case()}
		if r.State != ops.ReflexOn {
			v.Change = append(v.Change, reflexQuestion(r, "enable", "Make it a reflex", "check",
				"From now on the supervisor does this without an agent: "+strings.Join(r.Does, "; ")))
		}
		if r.State != ops.ReflexIsOff {
			no := map[ops.ReflexState]string{ops.ReflexAsked: "No", ops.ReflexOn: "Switch off"}[r.State]
			v.Change = append(v.Change, reflexQuestion(r, "disable", no, "x", "Agents repair it, as before."))
		}
		view.Reflexes = append(view.Reflexes, v)
	}
	return err
}

func reflexQuestion(r desk.EarnedReflex, verb, button, icon, text string) question {
	return question{
		ID: fmt.Sprintf("reflex-%d-%s", r.ID, verb), Button: button, Icon: icon, Style: "plain",
		Title: fmt.Sprintf("%s: %s?", button, plain(r.Words())),
		Text:  plain(text), Action: fmt.Sprintf("/reflexes/%d/%s", r.ID, verb), Yes: button, No: "Cancel",
		Fields: []input{{Name: "reason", Label: "Reason", Kind: "area", Max: desk.MaxReason}},
	}
}

// switchReflex switches an earned reflex on or off.
func (s *services) switchReflex(to ops.ReflexState) http.HandlerFunc {
	return s.does("reflex", func(r *http.Request) (string, error) {
		got, err := s.desk.SwitchReflex(r.Context(), by(r), rowID(r), to, reason(r))
		return servicePath(got.Environment, got.Service) + "?done=reflex", err
	})
}
