package desk

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"claudeops/internal/config/edit"
	"claudeops/internal/ops"
)

// Settings is the configuration file of the daemon.
type Settings interface {
	Read() (ConfigFile, error)
	// Targets is the file that a notification target is added to: the one that the configuration names, or a new one.
	Targets(named string) (string, error)
	// Held are the targets in that file.
	Held(path string) ([]Target, error)
	// Check returns an error unless the daemon would have, with the new content, its configuration and exactly the change. What is wrong
	// with a value is a *Wrong.
	Check(d Draft) error
	// Write puts a draft that was checked into effect at the next reload, beside a backup. What it returns takes the draft back.
	Write(d Draft) (undo func() error, err error)
	// Reload makes the daemon read its configuration again, as SIGHUP does. An error says why it goes on with the old one.
	Reload(ctx context.Context) error
}

// ConfigFile is the file as it is now.
type ConfigFile struct {
	Path    string // empty: the daemon has none
	Content []byte
	Digest  string
	Locked  string // why it cannot be written from here, as a sentence; empty if it can
	Edited  bool   // the daemon has not read it since somebody changed it
}

// Target is a notification target without its secret.
type Target struct{ ID, Name string }

// Draft is a change of the file that is not written yet. Its content is all that is needed to ask what would follow from it.
type Draft struct {
	ConfigFile
	edit.Result

	Change  edit.Change
	Target  string // a notification target, which is a secret, or the ID of one that is removed
	Targets string // the file that it is added to or removed from
}

// Draft makes the new content of the configuration file and checks it.
func (d *Desk) Draft(change edit.Change, target string) (Draft, error) {
	if d.Settings == nil {
		return Draft{}, wrong("this daemon does not change its configuration: write it into the file, then reload")
	}
	file, err := d.Settings.Read()
	if err != nil {
		return Draft{}, err
	}
	out := Draft{ConfigFile: file, Change: change, Target: strings.TrimSpace(target)}
	if err := d.known(change); err != nil {
		return out, err
	}
	switch {
	case out.Target == "":
		out.Result, err = edit.Apply(file.Content, change)
	case change.Remove:
		err = out.removeTarget(d.Settings)
	default:
		err = out.addTarget(d.Settings)
	}
	var unfit *edit.Unfit
	switch {
	case errors.As(err, &unfit):
		return out, WrongField(unfit.Key, err.Error())
	case err != nil:
		return out, wrong("%s", err)
	}
	return out, d.Settings.Check(out)
}

// known refuses what does not exist, and what would put a password into the file.
func (d *Desk) known(c edit.Change) error {
	e, err := d.Environment(c.Environment)
	if err != nil {
		return err
	}
	if c.Trust != "" {
		if _, err := ops.ParseTrust(c.Trust); err != nil {
			return WrongField("trust", err.Error())
		}
	}
	for _, p := range []*edit.Probe{c.Probe, first(c.Service)} {
		if p == nil {
			continue
		}
		beats := func(o ops.ProbeSpec) bool { return o.Service == c.Name && o.Type == ops.ProbeHeartbeat }
		if p.Type == ops.ProbeHeartbeat && c.At == 0 && slices.ContainsFunc(e.Probes, beats) {
			return WrongField("every", "it has a heartbeat already: write a second one into the file, with a name of its own")
		}
		u, err := url.Parse(p.URL)
		if err == nil && u.User != nil {
			return WrongField("url", "the URL holds a password, and forms put no secrets into the file: write it there yourself")
		}
		const metadata = "leads to a link-local or metadata address, which gives out credentials: name the service's own"
		if err == nil && ops.IsMetadata(u.Hostname()) {
			return WrongField("url", metadata)
		}
		if u, err := url.Parse("tcp://" + p.Address); err == nil && ops.IsMetadata(u.Hostname()) {
			return WrongField("address", metadata)
		}
	}
	return nil
}

func first(s *edit.Service) *edit.Probe {
	if s == nil {
		return nil
	}
	return s.Probe
}

// addTarget names the file of targets in the configuration, where it is not named yet.
func (d *Draft) addTarget(file Settings) error {
	if !ops.IsTarget(d.Target) || len(d.Target) > MaxObservation {
		return &edit.Unfit{Key: "target", Why: "is not one URL such as ntfys://ntfy.sh/topic"}
	}
	err := d.findTargets(file)
	if err != nil || d.Line > 0 {
		return err
	}
	d.Change.Targets = d.Targets
	d.Result, err = edit.Apply(d.Before(), d.Change)
	return err
}

// removeTarget takes the file of targets out of the configuration with the last target.
func (d *Draft) removeTarget(file Settings) error {
	if err := d.findTargets(file); err != nil {
		return err
	}
	held, err := file.Held(d.Targets)
	if err != nil || len(held) != 1 {
		return err
	}
	d.Change.Targets = d.Targets
	d.Result, err = edit.Apply(d.Before(), d.Change)
	return err
}

// Removable are the notification targets that forms can remove: those in a file of ours that the configuration names.
func (d *Desk) Removable() ([]Target, error) {
	if d.Settings == nil {
		return nil, nil
	}
	file, err := d.Settings.Read()
	if err != nil {
		return nil, err
	}
	draft := Draft{ConfigFile: file}
	if err := draft.findTargets(d.Settings); err != nil || draft.Line == 0 {
		return nil, nil //nolint:nilerr // nothing there is ours
	}
	return d.Settings.Held(draft.Targets)
}

// findTargets finds the file of targets, and the line of the configuration that names it; 0 if none does.
func (d *Draft) findTargets(file Settings) error {
	named, line, err := edit.TargetsFile(d.Before())
	if err == nil {
		d.Targets, err = file.Targets(named)
		d.Result = edit.Result{Content: d.Before(), Line: line}
	}
	return err
}

// Before is the content before the change.
func (d *Draft) Before() []byte { return d.ConfigFile.Content }

// Saved is what was written.
type Saved struct {
	Draft
	Beat string // the token with which a job calls a new heartbeat
}

// Save writes the change into the configuration file, records it and lets the daemon read the file again. Seen is the digest of the file
// that the person was shown the change in.
func (d *Desk) Save(ctx context.Context, by Person, change edit.Change, target, seen string) (Saved, error) {
	d.saving.Lock()
	defer d.saving.Unlock()
	draft, err := d.Draft(change, target)
	switch {
	case draft.Digest != "" && draft.Digest != seen:
		return Saved{Draft: draft}, wrong("the file was changed after you saw this: look at it once more")
	case err != nil:
		return Saved{Draft: draft}, err
	case draft.Locked != "":
		return Saved{Draft: draft}, wrong("%s", draft.Locked)
	}
	undo, err := d.Settings.Write(draft)
	if err != nil {
		return Saved{Draft: draft}, err
	}
	_, err = d.Store.Journal.AddEvent(ctx, draft.event(d.Clock(), by, draft.Says()))
	saved := Saved{Draft: draft}
	if p := draft.Probe(); err == nil && p != nil && p.Type == ops.ProbeHeartbeat && change.At == 0 {
		heart := ops.Heartbeat{Environment: change.Environment, Service: draft.Service(), Probe: p.Type}
		saved.Beat, err = d.Store.Watch.AddressHeartbeat(ctx, heart, by.String(), d.Clock())
	}
	if err != nil {
		return saved, errors.Join(err, undo())
	}
	if err := d.Settings.Reload(ctx); err != nil {
		did := "took it back, because the daemon refused it: " + draft.Says()
		_, bad := d.Store.Journal.AddEvent(ctx, draft.event(d.Clock(), by, did))
		return saved, errors.Join(err, undo(), bad)
	}
	d.changed()
	return saved, nil
}

// event is the record of what was done with a draft.
func (d *Draft) event(at time.Time, by Person, did string) ops.Event {
	return ops.Event{
		At: at, Environment: d.Change.Environment, Level: ops.LevelWarning, Verb: ops.VerbSettingsChanged, Actor: ops.Person(by.String()),
		Service: d.Service(), Detail: ops.RequestDetail{Did: did},
	}
}

// Reload lets the daemon read its configuration again.
func (d *Desk) Reload(ctx context.Context, by Person) error {
	if d.Settings == nil {
		return wrong("no daemon works here that could read its configuration again: the next start reads it")
	}
	if err := d.Settings.Reload(ctx); err != nil {
		return err
	}
	e := (&Draft{}).event(d.Clock(), by, "had the configuration read again")
	e.Level = ops.LevelInfo
	_, err := d.Store.Journal.AddEvent(ctx, e)
	d.changed()
	return err
}

// Probe is the probe that the draft adds or changes; nil without one.
func (d *Draft) Probe() *edit.Probe {
	if d.Change.Probe != nil {
		return d.Change.Probe
	}
	return first(d.Change.Service)
}

// Service is the service that the draft is about.
func (d *Draft) Service() string {
	if d.Change.Service != nil {
		return d.Change.Service.Name
	}
	return d.Change.Name
}

// Says is what the draft does, for the record. It holds no secrets.
func (d *Draft) Says() string {
	switch c := d.Change; {
	case c.Remove && d.Target != "":
		return "removed a notification target from " + d.Targets
	case c.Remove && c.At > 0:
		return fmt.Sprintf("removed probe %d of %s from %s, line %d", c.At, c.Name, d.Path, d.Line)
	case c.Remove:
		return fmt.Sprintf("removed the service %s from %s, line %d", c.Name, d.Path, d.Line)
	case d.Added == "":
		return "added a notification target to " + d.Targets
	}
	return fmt.Sprintf("wrote into %s, line %d: %s", d.Path, d.Line, strings.Join(strings.Fields(d.Added), " "))
}
