package installtest

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const version = "1.2.3"

// root is the folder of the repository.
const root = "../.."

// made is a release that was made once for all tests.
type made struct {
	folder string // of everything
	said   string // by the script
}

func (m made) dist() string { return filepath.Join(m.folder, "dist") }

var (
	shared  string // removed by TestMain
	release = sync.OnceValues(func() (made, error) { return makeRelease(filepath.Join(shared, "signed"), true) })
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "claudeops-install-")
	if err != nil {
		panic(err)
	}
	shared = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// Programs that the script calls, without what takes long: packages without contents, and images without layers.
const (
	fakeNFPM = `#!/bin/sh
while [ $# -gt 1 ]; do
  case $1 in --packager) kind=$2 ;; --target) target=$2 ;; esac
  shift
done
echo "a package of the kind $kind" >"$target"
`
	fakeVuln = `#!/bin/sh
echo "govulncheck: no database"
exit ${VULN:-1}
`
	fakeDocker = `#!/bin/sh
echo "$*" >>"$(dirname "$0")/docker.log"
case "$1 $*" in
  version*Arch*) echo amd64 ;;
  version*) echo 29.0 ;;
  save*) echo "an image $2" ;;
esac
`
)

func put(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o700) //nolint:gosec // it may be run
}

func run(env []string, argv ...string) (string, error) {
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:gosec // commands of the tests
	cmd.Dir = root
	cmd.Env = append(cmd.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out), err
}

// makeRelease runs the script: with a key and a Docker daemon, or with neither.
func makeRelease(folder string, whole bool) (m made, err error) {
	m = made{folder: folder}
	at := func(name string) string { return filepath.Join(folder, name) }
	for name, text := range map[string]string{
		"nfpm": fakeNFPM, "docker": fakeDocker, "govulncheck": fakeVuln,
		"CHANGELOG.md": "# Changelog\n\n## 1.3.0\n\n- Newer.\n\n## 1.2.3 - 2026-11-19\n\n- This one.\n\n## 1.2.2\n\n- Older.\n",
	} {
		if err := put(at(name), text); err != nil {
			return m, err
		}
	}
	env := []string{
		"VERSION=v" + version, "PLATFORMS=linux/amd64", "RELEASE_BINARIES=" + at("binaries"), "NFPM=" + at("nfpm"), "GOFLAGS=", "SIGNING_KEY=",
		"DOCKER=false", "GOVULNCHECK=" + at("govulncheck"), "CHANGELOG=" + at("CHANGELOG.md"),
	}
	// With the same settings the script would compile everything that the manual pages are made from a second time.
	if _, err := run([]string{"GOFLAGS=", "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64"}, "go", "build", "-o", at("binaries/linux-amd64/claudeops"), "./test/installtest/tiny"); err != nil {
		return m, err
	}
	if whole {
		// Every platform, so that there is a formula; the programs are the same file.
		for _, platform := range []string{"linux-arm64", "darwin-amd64", "darwin-arm64"} {
			if _, err := run(nil, "cp", "-r", at("binaries/linux-amd64"), at("binaries/"+platform)); err != nil {
				return m, err
			}
		}
		env = append(env, "PLATFORMS=linux/amd64 linux/arm64 darwin/amd64 darwin/arm64")
		if _, err := run(nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "release", "-f", at("key")); err != nil {
			return m, err
		}
		env = append(env, "SIGNING_KEY="+at("key"), "DOCKER="+at("docker"))
	}
	m.said, err = run(env, "script/release", m.dist())
	return m, err
}

func theRelease(t *testing.T) made {
	t.Helper()
	m, err := release()
	must(t, err)
	return m
}

func (m made) read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(m.dist(), name))
	must(t, err)
	return string(raw)
}

func (m made) files(t *testing.T) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(m.dist())
	must(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestAReleaseHasEverythingAndASignature(t *testing.T) {
	m := theRelease(t)
	want := []string{
		"RELEASE_NOTES.md", "SHA256SUMS", "SHA256SUMS.sig", "allowed_signers", "claudeops_1.2.3.cdx.json", "claudeops.rb", "claudeops_truenas.yaml",
		"claudeops_unraid.xml", "install.sh", "provenance.json", "claudeops_1.2.3_darwin_amd64.tar.gz", "claudeops_1.2.3_darwin_arm64.tar.gz",
	}
	for arch, cpu := range map[string]string{"amd64": "x86_64", "arm64": "aarch64"} {
		want = append(want, "claudeops_1.2.3-1_"+arch+".deb", "claudeops-1.2.3-1."+cpu+".rpm", "claudeops-1.2.3-r1."+cpu+".apk",
			"claudeops_1.2.3_linux_"+arch+".tar.gz", "claudeops_1.2.3_linux_"+arch+"_image-full.tar.gz", "claudeops_1.2.3_linux_"+arch+"_image-slim.tar.gz")
	}
	slices.Sort(want)
	if got := m.files(t); !slices.Equal(got, want) {
		t.Errorf("the release is\n%v, want\n%v", got, want)
	}
	sums := m.read(t, "SHA256SUMS")
	for _, name := range want {
		if listed := strings.Contains(sums, "  "+name+"\n"); listed == strings.HasPrefix(name, "SHA256SUMS") {
			t.Errorf("%s in the checksums: %t", name, listed)
		}
	}
	for _, script := range []string{
		`cd "$1" && sha256sum --check --strict --quiet SHA256SUMS`,
		`cd "$1" && ssh-keygen -Y verify -f allowed_signers -I claudeops -n file -s SHA256SUMS.sig <SHA256SUMS`,
		`test "$(cut -d' ' -f3,4 "$1/allowed_signers")" = "$(cut -d' ' -f1,2 "$1/../key.pub")"`,
	} {
		if _, err := run(nil, "sh", "-c", script, "sh", m.dist()); err != nil {
			t.Error(err)
		}
	}
	log, err := os.ReadFile(filepath.Join(m.folder, "docker.log"))
	if err != nil || !strings.Contains(string(log), "--platform linux/arm64 --tag registry.example.org/claudeops:1.2.3-slim-arm64 --target slim") {
		t.Errorf("docker was asked: %s, %v", log, err)
	}
	if notes := m.read(t, "RELEASE_NOTES.md"); notes != "# Claude Ops 1.2.3\n\n- This one.\n" {
		t.Errorf("the notes are %q", notes)
	}
	if formula := m.read(t, "claudeops.rb"); strings.Contains(formula, "@") || !strings.Contains(sums, regexp.MustCompile(`[0-9a-f]{64}`).FindString(formula)+"  claudeops_1.2.3_darwin_arm64") {
		t.Errorf("the formula is\n%s", formula)
	}
	var template struct {
		Repository  string
		ExtraParams string
		Config      []struct {
			Target string `xml:",attr"`
		}
	}
	must(t, xml.Unmarshal([]byte(m.read(t, "claudeops_unraid.xml")), &template))
	if template.Repository != "registry.example.org/claudeops:1.2.3" || len(template.Config) != 7 || !strings.Contains(template.ExtraParams, "--cap-drop=ALL") {
		t.Errorf("the template of Unraid is %+v", template)
	}
	head, err := run(nil, "git", "rev-parse", "HEAD")
	must(t, err)
	var provenance struct{ Version, Commit, Go string }
	must(t, json.Unmarshal([]byte(m.read(t, "provenance.json")), &provenance))
	if provenance.Version != version || provenance.Commit != strings.TrimSpace(head) || !strings.HasPrefix(provenance.Go, "go1.") {
		t.Errorf("provenance is %+v", provenance)
	}
}

// part is a component of a bill of materials.
type part struct {
	Type, Name, Version, PURL string
	Ref                       string `json:"bom-ref"`
	Hashes                    []struct{ Alg, Content string }
	Licenses                  []struct{ License struct{ ID, Name string } }
	Components                []part
}

func TestTheBillOfMaterialsNamesWhatIsInTheProgram(t *testing.T) {
	m := theRelease(t)
	var bom struct {
		Format   string `json:"bomFormat"`
		Spec     string `json:"specVersion"`
		Serial   string `json:"serialNumber"`
		Version  int
		Metadata struct {
			Timestamp string
			Component part
		}
		Components   []part
		Dependencies []struct {
			Ref string
			On  []string `json:"dependsOn"`
		}
	}
	must(t, json.Unmarshal([]byte(m.read(t, "claudeops_1.2.3.cdx.json")), &bom))
	if bom.Format != "CycloneDX" || bom.Spec != "1.6" || bom.Version != 1 || bom.Metadata.Component.Version != version || len(bom.Metadata.Component.Components) != 4 ||
		!regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(bom.Serial) {
		t.Errorf("the document is %s %s %d %s of %+v", bom.Format, bom.Spec, bom.Version, bom.Serial, bom.Metadata)
	}
	refs := map[string]bool{}
	names := map[string]part{}
	for _, p := range bom.Components {
		names[p.Name] = p
		if refs[p.Ref] || p.PURL == "" || p.Version == "" || len(p.Licenses) == 0 {
			t.Errorf("component %+v", p)
		}
		refs[p.Ref] = true
	}
	sys := names["golang.org/x/sys"]
	if !strings.HasPrefix(sys.PURL, "pkg:golang/golang.org/x/sys@v0.") || len(sys.Hashes) != 1 || len(sys.Hashes[0].Content) != 64 || sys.Licenses[0].License.ID != "BSD-3-Clause" {
		t.Errorf("the module is %+v", sys)
	}
	if !strings.HasPrefix(names["std"].PURL, "pkg:golang/std@1.") || len(names["htmx.org"].Components) != 2 {
		t.Errorf("the library and the bundled files are %+v and %+v", names["std"], names["htmx.org"])
	}
	if _, ok := names["modernc.org/sqlite"]; ok {
		t.Error("it names a module that the program does not have")
	}
	last := bom.Dependencies[len(bom.Dependencies)-1]
	if last.Ref != bom.Metadata.Component.Ref || len(last.On) != len(bom.Components) {
		t.Errorf("the program depends on %d of %d", len(last.On), len(bom.Components))
	}
}

func TestAReleaseSaysWhatItLeavesOut(t *testing.T) {
	m, err := makeRelease(filepath.Join(t.TempDir(), "bare"), false)
	must(t, err)
	for _, part := range []string{
		"left out: the container images", "left out: the signature", "left out: the check for known weaknesses (govulncheck): govulncheck: no database", "left out: the Homebrew formula",
	} {
		if !strings.Contains(m.said, part) {
			t.Errorf("it does not say %q:\n%s", part, m.said)
		}
	}
	if got := strings.Join(m.files(t), " "); strings.Contains(got, "image-") || strings.Contains(got, ".sig") || strings.Contains(got, "signers") {
		t.Errorf("the release is %s", got)
	}
	for name, tt := range map[string]struct {
		env  string
		args []string
		says string
	}{
		"images without a daemon":   {"DOCKER=false", []string{"--images"}, "no Docker daemon answers"},
		"a version without notes":   {"VERSION=v1.2.4", []string{"--no-images"}, "CHANGELOG.md has no heading '## 1.2.4'"},
		"a known weakness":          {"VULN=3", []string{"--no-images"}, "govulncheck: no database"},
		"a key that is not there":   {"SIGNING_KEY=/nowhere/key", []string{"--no-images"}, "cannot be read"},
		"an option that is unknown": {"DOCKER=false", []string{"--picture"}, "there is no option --picture"},
	} {
		dist := filepath.Join(t.TempDir(), "dist")
		_, err := run([]string{
			"VERSION=v" + version, "GOVULNCHECK=" + filepath.Join(m.folder, "govulncheck"), "CHANGELOG=" + filepath.Join(m.folder, "CHANGELOG.md"), tt.env,
		}, append([]string{"script/release"}, append(tt.args, dist)...)...)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(dist); err == nil {
			t.Errorf("%s: something was made", name)
		}
	}
}

func TestMakeWithoutGoSaysWhatToInstall(t *testing.T) {
	for _, target := range []string{"build", "demo", "test"} {
		out, err := run([]string{"GO=/nowhere/go"}, "make", "GO=/nowhere/go", target)
		if err == nil || !strings.Contains(out, "Go 1.26 or later is missing") || !strings.Contains(out, "apt install golang-go") {
			t.Errorf("make %s: %v\n%s", target, err, out)
		}
	}
	out, err := run(nil, "make", "GO=/nowhere/go")
	if err != nil || !strings.Contains(out, "make build") || !strings.Contains(out, "Go 1.26 or later is missing") {
		t.Errorf("make: %v\n%s", err, out)
	}
}

// What the next release is called stands in the change log, in the README, and in what is built.
func TestOneVersionEverywhere(t *testing.T) {
	read := func(name string) string {
		raw, err := os.ReadFile(filepath.Join(root, name))
		must(t, err)
		return string(raw)
	}
	next := regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+)`).FindStringSubmatch(read("CHANGELOG.md"))
	if next == nil {
		t.Fatal("the change log has no version")
	}
	if !strings.Contains(read("README.md"), "version "+next[1]) {
		t.Errorf("the README does not name version %s", next[1])
	}
	built, err := run(nil, "make", "-s", "--eval", "this-version:; @echo $(VERSION)", "this-version")
	must(t, err)
	if tags, _ := run(nil, "git", "tag"); tags == "" && !strings.HasPrefix(built, next[1]+"-dev.") {
		t.Errorf("make build makes version %s, the change log says %s", built, next[1])
	}
	// The one line that a person types, with the addresses of packaging/release.env.
	latest := regexp.MustCompile(`(?m)^LATEST=(.*)$`).FindStringSubmatch(read("packaging/release.env"))
	if latest == nil || !strings.Contains(read("docs/install.md")[:600], "curl -fsSL "+latest[1]+"/install.sh | sh\n") {
		t.Errorf("docs/install.md does not begin with the line that installs from %v", latest)
	}
}

func TestPublishingRefusesPlaceholders(t *testing.T) {
	m := theRelease(t)
	_, err := run([]string{"REGISTRY="}, "script/publish", m.dist())
	if err == nil || !strings.Contains(err.Error(), "packaging/release.env has placeholders") {
		t.Errorf("publish: %v", err)
	}
	_, err = run([]string{"REGISTRY=registry.test/ops", "DOCKER=" + filepath.Join(m.folder, "docker")}, "script/publish", m.dist())
	must(t, err)
	log, err := os.ReadFile(filepath.Join(m.folder, "docker.log"))
	must(t, err)
	for _, line := range []string{
		"push --quiet registry.test/ops:1.2.3-arm64",
		"manifest create --amend registry.test/ops:1.2.3 registry.test/ops:1.2.3-amd64 registry.test/ops:1.2.3-arm64",
		"manifest push --purge registry.test/ops:latest-slim",
	} {
		if !strings.Contains(string(log), line) {
			t.Errorf("docker was not asked: %s\n%s", line, log)
		}
	}
}
