package daemon

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"claudeops/internal/config"
	"claudeops/internal/decide/rehearse"
	"claudeops/internal/desk"
	"claudeops/internal/ops"
	"claudeops/internal/watch/notify"
)

// targetsFile is the file of the state folder that holds the notification targets which were added by form.
const targetsFile = "notify-targets"

// keptBackups is how many backups of the configuration file are kept.
const keptBackups = 5

// backupTime is the time in the name of a backup: names sort as times do.
const backupTime = "20060102T150405.000000000Z"

// settingsFile is the configuration file, for the forms of the pages.
type settingsFile struct{ Options }

// ConfigFile is the configuration file as the pages change it; nil if this process cannot read it again.
func ConfigFile(o Options) desk.Settings {
	if o.LoadConfig == nil || o.Reload == nil {
		return nil
	}
	return settingsFile{o}
}

// Read reads the file, and finds out whether it can be written.
func (f settingsFile) Read() (desk.ConfigFile, error) {
	out := desk.ConfigFile{Path: f.Config.Path()}
	if out.Path == "" {
		out.Digest = config.Digest(nil)
		out.Locked = "the daemon has no configuration file: run claudeops init, or make claudeops.yaml in its working folder, and start it again"
		return out, nil
	}
	var err error
	if out.Content, err = os.ReadFile(out.Path); err != nil {
		return out, fmt.Errorf("read configuration file: %w", err)
	}
	out.Digest = config.Digest(out.Content)
	out.Edited = out.Digest != f.Config.Digest
	if _, err := f.writable(); err != nil {
		out.Locked = err.Error()
	}
	return out, nil
}

// Targets is the file that the configuration names, if it is ours alone, or a new one in the state folder.
func (f settingsFile) Targets(named string) (string, error) {
	if named == "" {
		return filepath.Join(f.Config.StateDir, targetsFile), nil
	}
	path := named
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(f.Config.Path()), path)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return "", fmt.Errorf("find notification targets: %w", err)
	}
	const others = 0o077
	if uid, _ := owner(info); !info.Mode().IsRegular() || info.Mode()&others != 0 || uid != os.Geteuid() {
		return "", fmt.Errorf("the targets come from %s, which is not a file that only the daemon can read: add the URL there, then reload", path)
	}
	return path, nil
}

// Reload makes the daemon read its configuration again.
func (f settingsFile) Reload(ctx context.Context) error { return f.Options.Reload(ctx) }

// writable returns the file itself, which a link may lead to, if this process may replace it.
func (f settingsFile) writable() (string, error) {
	path, err := filepath.EvalSymlinks(f.Config.Path())
	if err != nil {
		return "", fmt.Errorf("find configuration file: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("find configuration file: %w", err)
	}
	uid, _ := owner(info)
	switch {
	case unix.Access(path, unix.W_OK) != nil, unix.Access(filepath.Dir(path), unix.W_OK) != nil:
		return "", fmt.Errorf("the daemon may not write %s and its folder", path)
	case uid != os.Geteuid() && os.Geteuid() != 0:
		return "", fmt.Errorf("%s belongs to another user than the daemon", path)
	}
	return path, nil
}

// Held are the targets in a file, without their secrets.
func (f settingsFile) Held(path string) ([]desk.Target, error) {
	urls, err := targetsIn(path)
	var out []desk.Target
	for _, url := range urls {
		out = append(out, desk.Target{ID: targetID(url), Name: strings.Join(sender(f.Config, []string{url}, "", notify.Native{}).Names(), ", ")})
	}
	return out, err
}

func targetsIn(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	return strings.Fields(string(text)), err
}

// targetID names a target by what nobody can read it from.
func targetID(url string) string {
	const short = 16
	return config.Digest([]byte(url))[:short]
}

// after is what the files hold after the draft.
func (f settingsFile) after(d desk.Draft) (map[string][]byte, error) {
	out := map[string][]byte{d.Path: d.Result.Content}
	if d.Target == "" {
		return out, nil
	}
	held, err := os.ReadFile(d.Targets)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read notification targets: %w", err)
	}
	if d.Change.Remove {
		kept := []byte{}
		for line := range strings.Lines(string(held)) {
			if targetID(strings.TrimSpace(line)) != d.Target {
				kept = append(kept, line...)
			}
		}
		if len(kept) == len(held) {
			return nil, desk.WrongField("", "this target is not there any more: open the page of notifications again")
		}
		out[d.Targets] = kept
		return out, nil
	}
	if slices.Contains(strings.Fields(string(held)), d.Target) {
		return nil, desk.WrongField("target", "this target exists already")
	}
	if len(held) > 0 && !strings.HasSuffix(string(held), "\n") {
		held = append(held, '\n')
	}
	out[d.Targets] = append(held, d.Target+"\n"...)
	return out, nil
}

// rehearsedFor is how much of the record a draft is tried against, and draftTime how long the page may wait for it.
const (
	rehearsedFor = 90 * 24 * time.Hour
	draftTime    = 5 * time.Second
)

// rehearseDraft says what a draft would have changed; nil if this process cannot.
func (p *plan) rehearseDraft() func(context.Context, desk.Draft) (rehearse.Report, error) {
	if p.LoadConfig == nil {
		return nil
	}
	f := settingsFile{p.Options}
	return func(ctx context.Context, d desk.Draft) (rehearse.Report, error) {
		ctx, cancel := context.WithTimeout(ctx, draftTime)
		defer cancel()
		files, err := f.after(d)
		if err != nil {
			return rehearse.Report{}, err
		}
		before, err := f.LoadConfig(nil)
		if err != nil {
			return rehearse.Report{}, err
		}
		after, err := f.LoadConfig(files)
		if err != nil {
			return rehearse.Report{}, err
		}
		return Rehearse(ctx, p.store.Reports, before, after, Span{Since: p.Clock().Add(-rehearsedFor)})
	}
}

// tryDraft looks once by the probe that a draft adds or changes; nil if this process cannot.
func (p *plan) tryDraft() func(context.Context, desk.Draft) (ops.Check, bool) {
	if p.LoadConfig == nil {
		return nil
	}
	f := settingsFile{p.Options}
	return func(ctx context.Context, d desk.Draft) (check ops.Check, tried bool) {
		added := d.Probe()
		if added == nil || added.Type == ops.ProbeHeartbeat || d.Path == "" {
			return check, false
		}
		files, err := f.after(d)
		if err != nil {
			return check, false
		}
		before, wrong := f.LoadConfig(nil)
		after, err := f.LoadConfig(files)
		if err != nil || wrong != nil {
			return check, false
		}
		ctx, cancel := context.WithTimeout(ctx, draftTime)
		defer cancel()
		was := map[string][]ops.ProbeSpec{}
		for _, e := range before.Environments() {
			was[e.Name] = e.Probes
		}
		for _, e := range after.Environments() {
			of := slices.DeleteFunc(slices.Clone(e.Probes), func(s ops.ProbeSpec) bool {
				same := func(o ops.ProbeSpec) bool { return reflect.DeepEqual(o, s) }
				return s.Service != d.Service() || s.Type != added.Type || slices.ContainsFunc(was[e.Name], same)
			})
			if e.Name != cmp.Or(d.Change.Environment, e.Name) || len(of) == 0 {
				continue
			}
			found := p.prober.Run(ctx, e.Name, of[:1], ops.ProbeVerify)
			if len(found) == 1 {
				return found[0], true
			}
		}
		return check, false
	}
}

// Check loads the file as it is and as it would be, and compares.
func (f settingsFile) Check(d desk.Draft) error {
	files, err := f.after(d)
	if err != nil || d.Path == "" {
		return err
	}
	before, err := f.LoadConfig(nil)
	if err != nil {
		return desk.WrongField("", "the file is wrong as it is, so correct it first: "+err.Error())
	}
	after, err := f.LoadConfig(files)
	if err != nil {
		return f.wrong(err, d.Change.Remove)
	}
	c := d.Change
	add := config.Addition{
		Service: c.Name, Probe: c.Probe != nil || c.At > 0, Trust: ops.Trust(c.Trust), Target: d.Target,
		Gone: c.Remove, Instead: c.Probe != nil && c.At > 0,
	}
	if c.Remove && d.Target != "" {
		urls, err := targetsIn(d.Targets)
		if err != nil {
			return err
		}
		for _, url := range urls {
			if targetID(url) == d.Target {
				add.Target = url
			}
		}
	}
	if c.Service != nil {
		add.Service = c.Service.Name
	}
	if err := before.OnlyAdds(after, add); err != nil {
		return desk.WrongField("", err.Error())
	}
	return nil
}

// wrong is what the loader says about the form, without secrets. The first problem that names a field stands beside it; a removal has
// none, so that it is named by its line.
func (f settingsFile) wrong(err error, removal bool) error {
	var all *config.Error
	if !errors.As(err, &all) || len(all.Problems) == 0 {
		return err
	}
	first := all.Problems[0]
	key := first.Key[strings.LastIndexByte(first.Key, '.')+1:]
	if strings.HasPrefix(first.Key, "notify.") {
		key = "target"
	}
	text := first.Message
	if removal {
		text = "in " + filepath.Base(first.Where) + ": " + first.Key + ": " + first.Message
	}
	if first.Fix != "" {
		text += "; " + first.Fix
	}
	return desk.WrongField(key, text)
}

// Write replaces the file beside a backup. If the daemon would refuse it, everything is as before.
func (f settingsFile) Write(d desk.Draft) (undo func() error, err error) {
	path, err := f.writable()
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("find configuration file: %w", err)
	}
	files, err := f.after(d)
	if err != nil {
		return nil, err
	}
	if now, err := os.ReadFile(path); err != nil || config.Digest(now) != d.Digest {
		return nil, errors.Join(desk.WrongField("", "the file was changed meanwhile: look at it once more"), err)
	}
	var undone []func() error
	undo = func() error {
		var errs []error
		for _, back := range slices.Backward(undone) {
			errs = append(errs, back())
		}
		return errors.Join(errs...)
	}
	put := func(path string, content []byte, like fs.FileInfo) {
		if err != nil {
			return
		}
		before, missing := os.ReadFile(path)
		undone = append(undone, func() error {
			if missing != nil {
				return os.Remove(path)
			}
			return replaceFile(path, before, like)
		})
		err = replaceFile(path, content, like)
	}
	if targets, has := files[d.Targets]; has {
		put(d.Targets, targets, nil)
	}
	if !bytes.Equal(d.Before(), d.Result.Content) {
		put(path+config.BackupSuffix+f.Clock().UTC().Format(backupTime), d.Before(), info)
		put(path, d.Result.Content, info)
	}
	if err == nil {
		_, err = f.LoadConfig(nil) // as the reload will
	}
	if err != nil {
		return nil, errors.Join(f.wrong(err, d.Change.Remove), undo())
	}
	if err := f.forgetBackups(path); err != nil {
		f.Logger.Warn("old backups of the configuration file could not be removed", "error", err)
	}
	return undo, nil
}

// forgetBackups removes all but the newest backups that were made here.
func (settingsFile) forgetBackups(path string) error {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("list backups: %w", err)
	}
	var ours []string // the folder is read in the order of names
	for _, e := range entries {
		at, found := strings.CutPrefix(e.Name(), filepath.Base(path)+config.BackupSuffix)
		if _, err := time.Parse(backupTime, at); found && err == nil {
			ours = append(ours, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	for _, name := range ours[:max(0, len(ours)-keptBackups)] {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// replaceFile writes a file so that it is the old one or the new one at every moment, with the mode and owner of a given file; without
// one only this user can read it.
func replaceFile(path string, content []byte, like fs.FileInfo) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), ".claudeops-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write file: %w", errors.Join(err, temp.Close(), os.Remove(temp.Name())))
		}
	}()
	if like != nil {
		uid, gid := owner(like)
		if err := errors.Join(temp.Chmod(like.Mode().Perm()), temp.Chown(uid, gid)); err != nil {
			return err
		}
	}
	if _, err := temp.Write(content); err != nil {
		return err
	}
	if err := temp.Sync(); err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close(), temp.Close())
}

func owner(info fs.FileInfo) (uid, gid int) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid), int(s.Gid)
	}
	return -1, -1
}
