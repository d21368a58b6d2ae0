package installtest

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	archive = "claudeops_1.2.3_linux_amd64.tar.gz"
	deb     = "claudeops_1.2.3-1_amd64.deb"
	rpm     = "claudeops-1.2.3-1.x86_64.rpm"
)

// machine is what the script finds: these programs, a processor, and a user who is root.
type machine struct {
	t    *testing.T
	dir  string
	path string
}

// newMachine has what every system has, and these programs besides. Those that install only write down what they are asked for.
func newMachine(t *testing.T, processor string, programs ...string) machine {
	t.Helper()
	m := machine{t, t.TempDir(), filepath.Join(t.TempDir(), "bin")}
	m.program("uname", "case $1 in -s) echo Linux ;; -m) echo "+processor+" ;; esac")
	m.program("id", "echo 0")
	for _, name := range append([]string{
		"sh", "sed", "cut", "wc", "mktemp", "rm", "cp", "mv", "mkdir", "chmod", "tar", "gzip", "sha256sum", "cat",
	}, programs...) {
		switch name {
		case "dpkg", "rpm", "dpkg-query":
			m.program(name, "exit 1")
		case "apt-get", "dnf", "zypper", "yum", "apk":
			m.program(name, `for last in "$@"; do :; done; echo "`+name+` $*" >>`+m.dir+`/installed; cat "$last" >>`+m.dir+`/installed`)
		default:
			found, err := exec.LookPath(name)
			must(t, err)
			must(t, os.Symlink(found, filepath.Join(m.path, name)))
		}
	}
	return m
}

func (m machine) program(name, script string) {
	m.t.Helper()
	must(m.t, put(filepath.Join(m.path, name), "#!/bin/sh\n"+script+"\n"))
}

// install runs a script with the programs of this machine alone.
func (m machine) install(shell []string, script string, args ...string) (string, error) {
	m.t.Helper()
	argv := append(append(append([]string{}, shell...), script), args...)
	cmd := exec.CommandContext(m.t.Context(), argv[0], argv[1:]...) //nolint:gosec // commands of the tests
	cmd.Dir = m.dir
	cmd.Env = []string{"PATH=" + m.path, "HOME=" + m.dir, "TMPDIR=" + m.dir}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// installed is what reached the machine.
func (m machine) installed() string {
	m.t.Helper()
	out := ""
	for _, name := range []string{"installed", "to/claudeops", "to/.claudeops.new"} {
		raw, err := os.ReadFile(filepath.Join(m.dir, name))
		if err == nil {
			out += name + ": " + string(raw)
		}
	}
	return out
}

// leftovers names what the script should have removed.
func (m machine) leftovers() (out []string) {
	m.t.Helper()
	found, err := filepath.Glob(filepath.Join(m.dir, "tmp.*"))
	must(m.t, err)
	return found
}

// serve offers the files of a release, of which some are replaced; an empty text is a file that is missing.
func serve(t *testing.T, dist string, other map[string]string) string {
	t.Helper()
	files := http.FileServer(http.Dir(dist))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := other[strings.TrimPrefix(r.URL.Path, "/")]
		switch {
		case !ok:
			files.ServeHTTP(w, r)
		case text == "":
			http.NotFound(w, r)
		case text == cut:
			w.Header().Set("Content-Length", strconv.Itoa(1<<20))
			_, _ = w.Write(make([]byte, 1000))
			panic(http.ErrAbortHandler)
		default:
			_, _ = w.Write([]byte(text))
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// cut is a download that ends in the middle.
const cut = "\x00cut"

func TestAGoodReleaseIsInstalled(t *testing.T) {
	t.Parallel()
	m := theRelease(t)
	url := serve(t, m.dist(), nil)
	script := filepath.Join(m.dist(), "install.sh")
	for name, tt := range map[string]struct {
		shell    []string
		programs []string
		args     []string
		want     string
	}{
		"deb":                  {[]string{"dash"}, []string{"curl", "dpkg", "apt-get"}, nil, "apt-get install -y"},
		"deb where rpm is too": {[]string{"dash"}, []string{"curl", "dpkg", "apt-get", "rpm", "dnf"}, nil, "a package of the kind deb"},
		"rpm":                  {[]string{"bash", "--posix"}, []string{"curl", "rpm", "dnf"}, nil, "a package of the kind rpm"},
		"rpm with zypper":      {[]string{"dash"}, []string{"curl", "rpm", "zypper"}, []string{"--version", "v1.2.3"}, "--allow-unsigned-rpm"},
		"apk":                  {[]string{"busybox", "sh"}, []string{"curl", "apk"}, nil, "apk add --allow-untrusted"},
		"archive":              {[]string{"busybox", "sh"}, []string{"curl"}, []string{"--version", "1.2.3"}, "to/claudeops: "},
		"archive by wget":      {[]string{"dash"}, []string{"wget"}, nil, "to/claudeops: "},
		"archive on Debian":    {[]string{"dash"}, []string{"curl", "dpkg", "apt-get"}, []string{"--kind", "archive"}, "to/claudeops: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newMachine(t, "x86_64", append(tt.programs, "ssh-keygen")...)
			shell, err := exec.LookPath(tt.shell[0])
			must(t, err)
			out, err := b.install(append([]string{shell}, tt.shell[1:]...), script, append([]string{"--url", url + "/", "--to", "to"}, tt.args...)...)
			if err != nil || !strings.Contains(out, `Good "file" signature for claudeops`) || !strings.Contains(b.installed(), tt.want) {
				t.Errorf("%v\n%s\ninstalled: %.300q", err, out, b.installed())
			}
			if left := b.leftovers(); len(left) > 0 {
				t.Errorf("it leaves %v", left)
			}
		})
	}
}

func TestAnInstalledProgramRuns(t *testing.T) {
	t.Parallel()
	m := theRelease(t)
	b := newMachine(t, "amd64", "curl", "ssh-keygen")
	url := serve(t, m.dist(), nil)
	script := filepath.Join(checkout(t), "packaging", "install.sh")
	if out, err := b.install([]string{"/bin/sh"}, script, "--help"); err != nil || !strings.Contains(out, "--signers FILE") {
		t.Errorf("help: %v\n%s", err, out)
	}
	// The script of a checkout knows no key; the caller may.
	out, err := b.install([]string{"/bin/sh"}, script, "--url", url, "--to", "to", "--signers", filepath.Join(m.dist(), "allowed_signers"))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	said, err := exec.CommandContext(t.Context(), filepath.Join(b.dir, "to", "claudeops"), "--version").Output() //nolint:gosec // of the test
	if err != nil || !strings.HasPrefix(string(said), "claudeops 1.2.3 ") {
		t.Errorf("it says %q, %v", said, err)
	}
	out, err = b.install([]string{"/bin/sh"}, filepath.Join(m.dist(), "install.sh"), "--url", url, "--kind", "deb", "--download")
	if _, missing := os.Stat(filepath.Join(b.dir, deb)); err != nil || missing != nil {
		t.Errorf("download only: %v, %v\n%s", err, missing, out)
	}
}

// What --purge removes is tested on the machines of packagetest: here it would be of this machine.
func TestAnInstalledProgramIsRemoved(t *testing.T) {
	t.Parallel()
	m := theRelease(t)
	script := filepath.Join(m.dist(), "install.sh")
	for name, tt := range map[string]struct {
		args  []string
		wants string
	}{
		"program": {nil, "configuration and state stay"},
		"nothing": {[]string{"--to", "elsewhere"}, "there is no elsewhere/claudeops"},
		"package": {nil, "apt-get remove -y claudeops"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newMachine(t, "x86_64", "curl", "ssh-keygen", "apt-get")
			if out, err := b.install([]string{"/bin/sh"}, script, "--url", serve(t, m.dist(), nil), "--to", "to", "--kind", "archive"); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if strings.HasPrefix(tt.wants, "apt-get") {
				b.program("dpkg-query", "exit 0")
				b.program("apt-get", `echo "apt-get $*"`)
			}
			b.program("id", "[ $# -eq 1 ] && [ $1 = -u ] && echo 0")
			out, err := b.install([]string{"/bin/sh"}, script, append([]string{"--uninstall", "--to", "to"}, tt.args...)...)
			if err != nil || !strings.Contains(out, tt.wants) {
				t.Errorf("%v\n%s", err, out)
			}
			if left := b.installed() != ""; left == (name == "program") {
				t.Errorf("the program is there: %t", left)
			}
		})
	}
}

func TestAWrongReleaseIsNotInstalled(t *testing.T) {
	t.Parallel()
	m := theRelease(t)
	sums, signature := m.read(t, "SHA256SUMS"), m.read(t, "SHA256SUMS.sig")
	// Somebody who cannot sign as the release does signs with a key of their own.
	other := t.TempDir()
	if _, err := run(nil, "sh", "-c", `ssh-keygen -q -t ed25519 -N "" -f "$2/key" && cp "$1/SHA256SUMS" "$2/" && ssh-keygen -q -Y sign -n file -f "$2/key" "$2/SHA256SUMS"`,
		"sh", m.dist(), other); err != nil {
		t.Fatal(err)
	}
	forged, err := os.ReadFile(filepath.Join(other, "SHA256SUMS.sig"))
	must(t, err)
	half := m.read(t, "install.sh")
	half = half[:len(half)*9/10]
	must(t, put(filepath.Join(other, "half.sh"), half))
	script := filepath.Join(m.dist(), "install.sh")
	for name, tt := range map[string]struct {
		files     map[string]string
		processor string
		programs  []string
		script    string
		args      []string
		says      string
	}{
		"the sum of the package":        {files: map[string]string{deb: "another package\n"}, says: "the checksum of " + deb + " is wrong"},
		"the sum of the archive":        {files: map[string]string{archive: "another archive\n"}, args: []string{"--kind", "archive"}, says: "is wrong"},
		"sums that were changed":        {files: map[string]string{"SHA256SUMS": strings.ReplaceAll(sums, "a", "b")}, says: "the signature of the checksums is wrong"},
		"another key":                   {files: map[string]string{"SHA256SUMS.sig": string(forged)}, says: "the signature of the checksums is wrong"},
		"no signature":                  {files: map[string]string{"SHA256SUMS.sig": ""}, says: "the release has no signature"},
		"a page instead of a signature": {files: map[string]string{"SHA256SUMS.sig": "<html>not found</html>"}, says: "the signature of the checksums is wrong"},
		"half a signature":              {files: map[string]string{"SHA256SUMS.sig": signature[:len(signature)/2]}, says: "the signature of the checksums is wrong"},
		"no sums":                       {files: map[string]string{"SHA256SUMS": ""}, says: "cannot be downloaded"},
		"no package":                    {files: map[string]string{deb: ""}, says: "failed or was interrupted"},
		"interrupted":                   {files: map[string]string{deb: cut}, says: "failed or was interrupted"},
		"interrupted, by wget":          {files: map[string]string{deb: cut}, programs: []string{"wget", "ssh-keygen"}, says: "failed or was interrupted"},
		"interrupted sums":              {files: map[string]string{"SHA256SUMS": cut}, says: "cannot be downloaded"},
		"another processor":             {processor: "riscv64", says: "there is no program for riscv64"},
		"another version":               {args: []string{"--version", "1.3.0"}, says: "the release is not version 1.3.0"},
		"a version that begins alike":   {args: []string{"--version", "1.2"}, says: "the release is not version 1.2"},
		"no key in a checkout":          {script: "packaging/install.sh", says: "this script knows no key"},
		"no ssh-keygen":                 {programs: []string{"curl"}, says: "install openssh-client"},
		"nothing that downloads":        {programs: []string{"ssh-keygen"}, says: "curl or wget is needed"},
		"a kind that is unknown":        {args: []string{"--kind", "snap"}, says: "there is no kind snap"},
		"an option that is unknown":     {args: []string{"--force"}, says: "there is no option --force"},
		"half of the script":            {script: filepath.Join(other, "half.sh"), says: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.programs == nil {
				tt.programs = []string{"curl", "ssh-keygen"}
			}
			if tt.processor == "" {
				tt.processor = "x86_64"
			}
			from := script
			if tt.script != "" {
				from = tt.script
			}
			if !filepath.IsAbs(from) {
				from = filepath.Join(checkout(t), from)
			}
			b := newMachine(t, tt.processor, append(tt.programs, "dpkg", "apt-get")...)
			out, err := b.install([]string{"/bin/sh"}, from, append([]string{"--url", serve(t, m.dist(), tt.files), "--to", "to"}, tt.args...)...)
			if err == nil && tt.says != "" || !strings.Contains(out, tt.says) {
				t.Errorf("%v\n%s", err, out)
			}
			if got := b.installed(); got != "" {
				t.Errorf("it installed %.300q", got)
			}
			if left := b.leftovers(); len(left) > 0 {
				t.Errorf("it leaves %v", left)
			}
		})
	}
	b := newMachine(t, "x86_64", "curl", "ssh-keygen", "dpkg", "apt-get")
	if out, err := b.install([]string{"/bin/sh"}, script); err == nil || !strings.Contains(out, "say where the release is: --url URL") {
		t.Errorf("without an address: %v\n%s", err, out)
	}
}

// checkout is the folder of the repository.
func checkout(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(root)
	must(t, err)
	return dir
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
