package web_test

import (
	"context"
	"errors"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"claudeops/internal/access"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/desk"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/watch/probe"
	"claudeops/internal/web"
)

const ownFile = `# mine
trust: suggest

services: # all of them
  - name: web
    probes:
      - {type: http, url: "http://127.0.0.1:1/"}

# who is told
notify: {}
`

// configured is a site whose forms change a file.
type configured struct {
	*site
	path, state string
	reloads     int
	refuse      error // what the loader says about the file once it is changed
	unfit       error // what the daemon says at the reload
}

// locked is a file that cannot be written.
type locked struct{ desk.Settings }

func (l locked) Read() (desk.ConfigFile, error) {
	f, err := l.Settings.Read()
	f.Locked = "the daemon may not write it"
	return f, err
}

func newConfigured(t *testing.T, change ...func(*web.Options)) *configured {
	t.Helper()
	dir := t.TempDir()
	c := &configured{path: filepath.Join(dir, "claudeops.yaml"), state: filepath.Join(dir, "state")}
	must(t, errors.Join(os.WriteFile(c.path, []byte(ownFile), 0o640), os.Mkdir(c.state, 0o700)))
	load := func(instead map[string][]byte) (*config.Config, error) {
		if instead == nil && c.refuse != nil && c.file() != ownFile {
			return nil, c.refuse
		}
		return config.Load(config.Input{
			ConfigPath: c.path, Dir: dir, Environ: []string{"HOME=" + dir, "CLAUDEOPS_STATE_DIR=" + c.state}, Instead: instead,
			Checks: config.Checks{CheckProbe: probe.Validate, ProbeName: probe.Describe},
		})
	}
	loaded, err := load(nil)
	must(t, err)
	settings := daemon.ConfigFile(daemon.Options{
		Config: loaded, LoadConfig: load, Reload: func(context.Context) error { c.reloads++; return c.unfit }, Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	with := func(o *web.Options) { o.ConfigFile, o.Environments = settings, loaded.Environments() }
	c.site = newSite(t, append([]func(*web.Options){with}, change...)...)
	return c
}

func (c *configured) file() string {
	raw, err := os.ReadFile(c.path)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// seen is the file that a form was opened with.
func (c *configured) seen(path string) string {
	c.t.Helper()
	found := regexp.MustCompile(`name="seen" value="([0-9a-f]+)"`).FindStringSubmatch(c.page(path))
	if found == nil {
		c.t.Fatal("the form does not say which file it is for")
	}
	return found[1]
}

// save goes from the form over the preview to what was saved, as a browser does.
func (c *configured) save(path string, fields url.Values) (preview, saved string) {
	c.t.Helper()
	fields.Set("seen", c.seen(path))
	answered := c.do(form(c.t, path, fields))
	if answered.StatusCode != http.StatusOK {
		c.t.Fatalf("the preview is %d\n%s", answered.StatusCode, head(answered.body))
	}
	return answered.body, c.press(path, answered.body)
}

// press presses the button of a preview that writes.
func (c *configured) press(path, preview string) string {
	c.t.Helper()
	again := url.Values{}
	inside := content(preview)
	inside = inside[strings.Index(inside, `value="save"`)-400:]
	for _, hidden := range regexp.MustCompile(`type="hidden" name="([^"]*)" value="([^"]*)"`).FindAllStringSubmatch(inside, -1) {
		again.Set(hidden[1], html.UnescapeString(hidden[2]))
	}
	answered := c.do(form(c.t, path, again))
	if answered.StatusCode != http.StatusOK || !regexp.MustCompile("<span>(Saved|Removed)</span>").MatchString(answered.body) {
		c.t.Fatalf("saving is answered %d\n%s", answered.StatusCode, head(answered.body))
	}
	return answered.body
}

func (c *configured) backups() []string {
	found, err := filepath.Glob(c.path + ".bak-*")
	must(c.t, err)
	return found
}

// audits are the records of what people did.
func (c *configured) audits() string {
	c.t.Helper()
	events, err := c.Store.Journal.Events(c.t.Context(), store.EventFilter{Limit: 50})
	must(c.t, err)
	var out strings.Builder
	for _, e := range events {
		if e.Kind() == ops.EventAudit {
			out.WriteString(e.Message.Words() + "\n")
		}
	}
	return out.String()
}

func TestFormsChangeTheConfiguration(t *testing.T) {
	c := newConfigured(t)
	mustContain(t, c.page("/services"), `href="/settings/services/new"`)
	mustContain(t, c.page("/services/default/web"), `/settings/services/web/probes/new?environment=default`, `action="/settings/trust"`)
	mustContain(t, c.page("/notifications"), `href="/settings/notifications/new"`)
	mustContain(t, c.page("/config"), `href="/settings/services/new"`, `href="/settings/trust?environment=default"`)

	preview, _ := c.save("/settings/services/new", url.Values{"type": {"tcp"}, "name": {"db"}, "address": {"127.0.0.1:5432"}})
	mustContain(t, preview, c.path, "line 8", "- name: db", "address: 127.0.0.1:5432", "reads its configuration again", "Sessions that run go on as they began")
	want := strings.Replace(ownFile, "\n# who is told", "  - name: db\n    probes:\n      - type: tcp\n        address: 127.0.0.1:5432\n\n# who is told", 1)
	if c.file() != want || c.reloads != 1 || len(c.backups()) != 1 {
		t.Fatalf("%d reloads, %v backups, the file is\n%s", c.reloads, c.backups(), c.file())
	}
	if raw, err := os.ReadFile(c.backups()[0]); err != nil || string(raw) != ownFile {
		t.Errorf("the backup holds %s: %v", raw, err)
	}
	if info, err := os.Stat(c.path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the mode of the file is %v: %v", info.Mode(), err)
	}
	mustContain(t, c.audits(), "wrote into "+c.path+", line 8: - name: db probes: - type: tcp address: 127.0.0.1:5432")

	preview, _ = c.save("/settings/services/web/probes/new", url.Values{"environment": {"default"}, "type": {"container"}, "container": {"web-1"}})
	mustContain(t, preview, "restart, start and stop", "container: web-1")
	_, saved := c.save("/settings/services/web/probes/new", url.Values{"type": {"heartbeat"}, "every": {"24h"}})
	mustContain(t, saved, "curl -fsS", "/ping/")
	c.save("/settings/trust", url.Values{"service": {"web"}, "trust": {"repair"}})
	preview, _ = c.save("/settings/trust", url.Values{"environment": {"default"}, "trust": {"ask"}})
	mustContain(t, preview, "trust: suggest", "trust: ask")
	for range 3 {
		for _, level := range []string{"watch", "full"} {
			c.save("/settings/trust", url.Values{"service": {"web"}, "trust": {level}})
		}
	}
	for _, line := range []string{"# mine\ntrust: ask\n", "  - name: web\n    trust: full\n", "      - type: container\n        container: web-1\n", "every: 24h"} {
		if !strings.Contains(c.file(), line) {
			t.Errorf("%q is missing in\n%s", line, c.file())
		}
	}
	if c.reloads != 11 || len(c.backups()) != 5 {
		t.Errorf("%d reloads, %v backups", c.reloads, c.backups())
	}
}

// What stands in the file is changed and removed by the buttons that its page shows, and nothing else is.
func TestFormsChangeAndRemove(t *testing.T) {
	c := newConfigured(t)
	link := func(page, words string) string {
		t.Helper()
		found := regexp.MustCompile(`<a class="button small" href="([^"]+)">` + words).FindStringSubmatch(c.page(page))
		if found == nil {
			t.Fatalf("%s has no button %q", page, words)
		}
		return html.UnescapeString(found[1])
	}
	change := link("/services/default/web", "Change")
	mustContain(t, c.page(change), `value="http://127.0.0.1:1/"`)
	preview, _ := c.save(change, url.Values{"url": {"http://127.0.0.1:2/"}, "expect_status": {"200"}, "command": {"[id]"}})
	mustContain(t, preview, "http://127.0.0.1:2/", "expect_status: 200")
	if want := strings.Replace(ownFile, `"http://127.0.0.1:1/"}`, "http://127.0.0.1:2/, expect_status: 200}", 1); c.file() != want {
		t.Fatalf("the file is\n%s", c.file())
	}
	c.save("/settings/services/web/probes/new", url.Values{"type": {"tcp"}, "address": {"127.0.0.1:3"}})
	mustContain(t, c.do(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/settings/services/web/probes/3", http.NoBody)).body, "There is no such probe")

	remove := func(path, shown string) {
		t.Helper()
		before := c.page(path)
		mustContain(t, before, shown, "<span class=\"hidden\"> gone</span>", `value="save"`)
		c.press(path, before)
	}
	remove("/settings/services/web/probes/2/remove?environment=default", "address: 127.0.0.1:3")
	if strings.Contains(c.file(), "127.0.0.1:3") {
		t.Errorf("the file is\n%s", c.file())
	}
	const secret = "ntfys://ntfy.sh/tk-very-secret-topic"
	c.save("/settings/notifications/new", url.Values{"target": {secret}})
	path := link("/notifications", "Remove")
	before := c.page(path)
	mustNotContain(t, before+path, "very-secret")
	c.press(path, before)
	if raw, err := os.ReadFile(filepath.Join(c.state, "notify-targets")); err != nil || len(raw) > 0 {
		t.Errorf("the targets are %q: %v", raw, err)
	}
	remove(link("/services/default/web", `Remove…<span class="hidden"> the service`), "name: web")
	if strings.Contains(c.file(), "web") || !strings.Contains(c.file(), "# mine\ntrust: suggest\n") || !strings.Contains(c.file(), "# who is told") {
		t.Errorf("the file is\n%s", c.file())
	}
	mustContain(t, c.audits(), "removed the service web", "removed probe 2 of web", "removed a notification target", "expect_status: 200")
	if c.reloads != 6 {
		t.Errorf("%d reloads", c.reloads)
	}
}

// Another service needs it: nothing is written, and the page says which line.
func TestAServiceThatIsNeededIsNotRemoved(t *testing.T) {
	c := newConfigured(t)
	needed := strings.Replace(ownFile, "\n# who is told", "  - name: shop\n    depends_on: [web]\n\n# who is told", 1)
	must(t, os.WriteFile(c.path, []byte(needed), 0o640))
	mustContain(t, c.do(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/settings/services/web/remove", http.NoBody)).body, "Nothing was written.", "claudeops.yaml:6", "depends_on")
	must(t, os.WriteFile(c.path, []byte(strings.Replace(ownFile, `"}`, `", headers: {A: b}}`, 1)), 0o640))
	mustContain(t, c.do(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/settings/services/web/probes/1", http.NoBody)).body, "more than a form can write: change it in line 7")
	mustNotContain(t, c.page("/services/default/web"), "> the probe web</span>")
}

// A target is a secret: it stands in a file of its own, and nowhere else.
func TestATargetIsKeptSecret(t *testing.T) {
	c := newConfigured(t)
	const first, second = "ntfys://ntfy.sh/tk-very-secret-topic", "tgram://123:very-secret-token/456"
	targets := filepath.Join(c.state, "notify-targets")
	for i, secret := range []string{first, second} {
		preview, saved := c.save("/settings/notifications/new", url.Values{"target": {secret}})
		mustNotContain(t, preview+saved+c.audits()+c.file()+c.page("/events"), "very-secret")
		mustContain(t, saved, `action="/notifications/test"`)
		if i == 0 {
			mustContain(t, preview, "apprise_urls_file: "+targets, targets)
		} else {
			mustContain(t, preview, "It is not changed")
		}
	}
	raw, err := os.ReadFile(targets)
	info, missing := os.Stat(targets)
	if err != nil || missing != nil || info.Mode().Perm() != 0o600 || string(raw) != first+"\n"+second+"\n" {
		t.Errorf("%q with mode %v: %v", raw, info.Mode(), err)
	}
	if strings.Count(c.file(), targets) != 1 || c.reloads != 2 {
		t.Errorf("%d reloads, the file is\n%s", c.reloads, c.file())
	}
	// A file that others can read stays the operator's own.
	must(t, os.Chmod(targets, 0o644))
	shared := url.Values{"target": {"ntfy://x/z"}, "seen": {c.seen("/settings/notifications/new")}}
	mustContain(t, c.do(form(t, "/settings/notifications/new", shared)).body, "add the URL there, then reload")
	must(t, os.Chmod(targets, 0o600))
	// What one person typed is not for another.
	fields := url.Values{"target": {"ntfy://x/y"}, "seen": {c.seen("/settings/notifications/new")}}
	kept := regexp.MustCompile(`name="kept" value="(\w+)"`).FindStringSubmatch(c.do(form(t, "/settings/notifications/new", fields)).body)
	if kept == nil {
		t.Fatal("the preview keeps nothing")
	}
	_, secret, err := c.Store.People.AddToken(t.Context(), store.Token{Name: "ada", Role: string(access.RoleAdmin), CreatedAt: c.Now, CreatedBy: "test"})
	must(t, err)
	r := form(t, "/settings/notifications/new", url.Values{"kept": {kept[1]}, "step": {"save"}, "seen": fields["seen"]})
	r.Header.Set("Authorization", "Bearer "+secret)
	if a := c.do(r); a.StatusCode != http.StatusUnprocessableEntity || c.reloads != 2 {
		t.Errorf("the secret of another person is answered %d", a.StatusCode)
	}
}

// Nothing but the one thing can be written: not by other fields, not by line breaks, not by YAML in a value.
func TestHostileFormsWriteNothingElse(t *testing.T) {
	const services, probes, targets, trust = "/settings/services/new", "/settings/services/web/probes/new", "/settings/notifications/new", "/settings/trust"
	for name, one := range map[string]struct {
		path   string
		fields url.Values
		beside string // the field that is refused; empty: something is written
		never  string
	}{
		"extra fields": {services, url.Values{
			"name": {"db"}, "url": {"http://a/"}, "command": {"[sh, -c, id]"}, "headers": {"{A: evil}"}, "method": {"POST"}, "trust": {"full"},
			"actions": {"[{name: evil, run: [id]}]"}, "reflexes": {"evil"}, "insecure_tls": {"true"},
		}, "", "evil|command|POST|full|insecure"},
		"fields of another type": {probes, url.Values{"type": {"tcp"}, "address": {"a:1"}, "url": {"http://evil/"}, "container": {"evil"}}, "", "evil"},
		"line break in a name":   {services, url.Values{"type": {"none"}, "name": {"db\n    trust: full"}}, "name", "full"},
		"in a URL":               {probes, url.Values{"url": {"http://a/\r\n        headers: {A: b}"}}, "url", "headers"},
		"other line break":       {probes, url.Values{"type": {"container"}, "container": {"a\u0085command: [id]"}}, "container", "command"},
		"YAML in a name":         {services, url.Values{"type": {"none"}, "name": {`x", trust: full, y: "`}}, "", "\n    trust|, trust: full, y: \"\n"},
		"flow in a value":        {probes, url.Values{"url": {"http://a/"}, "expect_body": {"x}, {type: command, command: [id]"}}, "", "\n *command|- type: command"},
		"anchor":                 {services, url.Values{"type": {"none"}, "name": {"*a"}}, "", "name: \\*a"},
		"command":                {services, url.Values{"type": {"command"}, "name": {"db"}, "command": {"[id]"}}, "*", "command"},
		"password":               {probes, url.Values{"url": {"http://me:hunter2@a/"}}, "url", "hunter2"},
		"no URL":                 {probes, url.Values{"url": {"file:///etc/passwd"}}, "url", "passwd"},
		"wrong number":           {probes, url.Values{"url": {"http://a/"}, "expect_status": {"99"}}, "expect_status", "99"},
		"same name":              {services, url.Values{"type": {"none"}, "name": {"web"}}, "name", "\n  - name: web\n  - name: web"},
		"no such service":        {"/settings/services/other/probes/new", url.Values{"url": {"http://a/"}}, "*", "http://a/"},
		"no such environment":    {services, url.Values{"type": {"none"}, "name": {"db"}, "environment": {"lab"}}, "*", "db"},
		"no such level":          {trust, url.Values{"service": {"web"}, "trust": {"full\nx: y"}}, "trust", "full"},
		"two targets":            {targets, url.Values{"target": {"ntfy://a ntfy://b"}}, "target", "ntfy"},
		"escape in a target":     {targets, url.Values{"target": {"ntfy://a\x1bb"}}, "target", "ntfy"},
		"target without a name":  {targets, url.Values{"target": {"ntfy:///"}}, "target", "ntfy"},
		"target is a file":       {targets, url.Values{"target": {"file:///etc/passwd"}}, "target", "passwd"},
		"metadata":               {probes, url.Values{"url": {"http://169.254.169.254/latest/meta-data"}}, "url", "169"},
		"metadata by name":       {services, url.Values{"name": {"db"}, "url": {"http://metadata.google.internal./"}}, "url", "metadata"},
		"metadata over IPv6":     {probes, url.Values{"type": {"tcp"}, "address": {"[fd00:ec2::254]:80"}}, "address", "ec2"},
		"port of a URL":          {probes, url.Values{"url": {"http://a:65536/"}}, "url", "65536"},
		"port of an address":     {probes, url.Values{"type": {"tcp"}, "address": {"a:65536"}}, "address", "65536"},
		"target without scheme":  {targets, url.Values{"target": {"secret-topic"}}, "target", "secret-topic"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConfigured(t)
			one.fields.Set("seen", c.seen(one.path))
			one.fields.Set("step", "save")
			a := c.do(form(t, one.path, one.fields))
			if never := regexp.MustCompile(one.never); never.MatchString(strings.TrimPrefix(c.file(), ownFile[:20])) {
				t.Errorf("%s was written:\n%s", one.never, c.file())
			}
			if one.beside == "" {
				if a.StatusCode != http.StatusOK || c.reloads != 1 {
					t.Errorf("answered %d\n%s", a.StatusCode, head(a.body))
				}
				return
			}
			if a.StatusCode != http.StatusUnprocessableEntity || c.file() != ownFile || c.reloads != 0 || len(c.backups()) != 0 {
				t.Errorf("answered %d\n%s", a.StatusCode, c.file())
			}
			if one.beside != "*" {
				mustContain(t, a.body, `id="setting-`+one.beside+`-wrong"`, `aria-invalid="true"`, "Nothing was written.")
			}
			if typed := one.fields.Get("url"); typed != "" && !strings.ContainsAny(typed, "\r\n") {
				mustContain(t, a.body, `value="`+html.EscapeString(typed)+`"`)
			}
		})
	}
}

func TestFormsAreForAdministrators(t *testing.T) {
	c := newConfigured(t)
	seen := c.seen("/settings/services/new")
	fields := url.Values{"type": {"none"}, "name": {"db"}, "seen": {seen}, "step": {"save"}}
	paths := []string{"/settings/services/new", "/settings/services/web/probes/new", "/settings/notifications/new", "/settings/trust"}
	for _, role := range []access.Role{access.RoleRead, access.RoleResponder} {
		_, secret, err := c.Store.People.AddToken(t.Context(), store.Token{Name: string(role), Role: string(role), CreatedAt: c.Now, CreatedBy: "test"})
		must(t, err)
		for _, path := range paths {
			for _, r := range []*http.Request{form(t, path, fields), form(t, path, nil)} {
				r.Header.Set("Authorization", "Bearer "+secret)
				if r.ContentLength == 0 {
					r.Method = http.MethodGet
				}
				if a := c.do(r); a.StatusCode != http.StatusForbidden {
					t.Errorf("%s %s as %s is answered %d", r.Method, path, role, a.StatusCode)
				}
			}
		}
		r := form(t, "/services", nil)
		r.Method = http.MethodGet
		r.Header.Set("Authorization", "Bearer "+secret)
		mustNotContain(t, c.do(r).body, "/settings/services/new")
	}
	r := form(t, paths[0], fields)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	r.Header.Set("Origin", "https://evil.example")
	if a := c.do(r); a.StatusCode != http.StatusForbidden || c.file() != ownFile || c.reloads != 0 {
		t.Errorf("another site is answered %d\n%s", a.StatusCode, c.file())
	}
}

func TestAFileThatChangedMeanwhileIsNotOverwritten(t *testing.T) {
	c := newConfigured(t)
	const path = "/settings/services/new"
	fields := url.Values{"type": {"none"}, "name": {"db"}, "seen": {c.seen(path)}, "step": {"save"}}
	must(t, os.WriteFile(c.path, []byte(ownFile+"# more\n"), 0o600))
	a := c.do(form(t, path, fields))
	if a.StatusCode != http.StatusUnprocessableEntity || c.file() != ownFile+"# more\n" || c.reloads != 0 {
		t.Errorf("answered %d\n%s", a.StatusCode, c.file())
	}
	mustContain(t, a.body, "The file was changed after you saw this", `value="db"`)
	preview, _ := c.save(path, url.Values{"type": {"none"}, "name": {"db"}})
	mustContain(t, preview, "The file was changed after the daemon read it")
	must(t, os.WriteFile(c.path, []byte(ownFile+"max_tier: 9\n"), 0o600))
	broken := url.Values{"type": {"none"}, "name": {"cache"}, "seen": {c.seen(path)}}
	mustContain(t, c.do(form(t, path, broken)).body, "The file is wrong as it is, so correct it first", "max_tier")
	mustNotContain(t, preview, "# who is told") // it may stand beside a secret that the daemon does not know
}

func TestAFileThatCannotBeWrittenIsShown(t *testing.T) {
	c := newConfigured(t, func(o *web.Options) { o.ConfigFile = locked{o.ConfigFile} })
	const path = "/settings/services/new"
	fields := url.Values{"type": {"none"}, "name": {"db"}, "seen": {c.seen(path)}}
	a := c.do(form(t, path, fields))
	mustContain(t, a.body, "Copy it into the file yourself", "the daemon may not write it", "- name: db", c.path, "line 8", "claudeops reload")
	mustNotContain(t, a.body, `value="save"`)
	fields.Set("step", "save")
	if a := c.do(form(t, path, fields)); a.StatusCode != http.StatusUnprocessableEntity || c.file() != ownFile || c.reloads != 0 {
		t.Errorf("answered %d\n%s", a.StatusCode, c.file())
	}
}

// What the daemon refuses when it reads the file is told on the page, and the record says that it was taken back.
func TestWhatTheDaemonRefusesIsTakenBack(t *testing.T) {
	c := newConfigured(t)
	c.unfit = ops.NewConflict(ops.ConflictRestart, "the configuration changes listen, which needs a restart")
	fields := url.Values{"type": {"none"}, "name": {"db"}, "seen": {c.seen("/settings/services/new")}, "step": {"save"}}
	a := c.do(form(t, "/settings/services/new", fields))
	if a.StatusCode/100 == 2 || c.file() != ownFile || c.reloads != 1 || len(c.backups()) != 0 {
		t.Errorf("answered %d, %d reloads, %v\n%s", a.StatusCode, c.reloads, c.backups(), c.file())
	}
	mustContain(t, a.body, "Nothing was written", "the configuration changes listen, which needs a restart")
	mustContain(t, c.page("/events"), "took it back, because the daemon refused it")
}

func TestARefusedReloadRestoresTheFiles(t *testing.T) {
	c := newConfigured(t)
	c.refuse = errors.New("the loader says no")
	for path, fields := range map[string]url.Values{
		"/settings/services/new":      {"type": {"none"}, "name": {"db"}},
		"/settings/notifications/new": {"target": {"ntfy://a/very-secret"}},
	} {
		fields.Set("seen", c.seen(path))
		fields.Set("step", "save")
		a := c.do(form(t, path, fields))
		if a.StatusCode != http.StatusInternalServerError || c.file() != ownFile || c.reloads != 0 || len(c.backups()) != 0 {
			t.Errorf("answered %d, %v\n%s", a.StatusCode, c.backups(), c.file())
		}
		mustContain(t, a.body, "Nothing was written: the loader says no")
		mustNotContain(t, a.body, "very-secret")
	}
	if left, err := os.ReadDir(c.state); err != nil || len(left) != 0 {
		t.Errorf("left in the state folder: %v %v", left, err)
	}
}

// The form on the page of a service holds what the page put into it, and nothing else.
func TestTrustIsChangedFromThePageOfTheService(t *testing.T) {
	c := newConfigured(t)
	page := c.page("/services/default/web")
	_, shown, found := strings.Cut(page, `action="/settings/trust"`)
	shown, _, _ = strings.Cut(shown, "</form>")
	if !found || strings.Contains(shown, `name="seen"`) {
		t.Fatalf("the form is\n%s", shown)
	}
	hidden := regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)
	filled := func(html string) url.Values {
		fields := url.Values{}
		for _, m := range hidden.FindAllStringSubmatch(html, -1) {
			fields.Set(m[1], m[2])
		}
		return fields
	}
	fields := filled(shown)
	fields.Set("trust", "repair")
	preview := c.do(form(t, "/settings/trust", fields))
	mustContain(t, preview.body, "trust: repair", ">Save</button>")
	mustNotContain(t, preview.body, "What would this change?", "The file was changed")
	_, saving, _ := strings.Cut(preview.body, `action="/settings/trust"`)
	saving, _, _ = strings.Cut(saving, "</form>")
	saved := c.do(form(t, "/settings/trust", filled(saving)))
	if mustContain(t, saved.body, "Saved"); !strings.Contains(c.file(), "trust: repair") {
		t.Errorf("the file is\n%s", c.file())
	}
}

func TestAPreviewTriesTheProbe(t *testing.T) {
	found := ops.Check{Status: ops.Down, Error: "connection refused"}
	c := newConfigured(t, func(o *web.Options) {
		o.Try = func(context.Context, desk.Draft) (ops.Check, bool) { return found, true }
	})
	fields := func() url.Values {
		return url.Values{"environment": {"default"}, "type": {"tcp"}, "name": {"db"}, "address": {"127.0.0.1:1"}}
	}
	const path = "/settings/services/new"
	mustContain(t, c.do(form(t, path, fields())).body, "Checked now: connection refused. Save it all the same?", ">Save</button>")
	found = ops.Check{Status: ops.Healthy, ResponseTimeMS: 3}
	mustContain(t, c.do(form(t, path, fields())).body, "Checked now: healthy, after 3 ms.")
}
