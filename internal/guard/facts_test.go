package guard

import (
	"reflect"
	"strings"
	"testing"

	"claudeops/internal/ops"
)

func TestParseFacts(t *testing.T) {
	got, err := ParseFacts([]byte(`
cwd: /repos/infra
repos_dir: /repos
repositories: [/srv/stack]
state_dir: /state
temp_dir: /tmp
inventory_hosts: [ie01]
protected_files: [ie.yaml]
volumes_dirs: [/volumes]
own_api: ["127.0.0.1:8080"]
own_paths: [/run/claudeops]
services: [sonarr, {name: jellyfin, aliases: [jf]}]
web_hosts: [example.com]
mcp_tools: {tier1: [mcp__a__b], "2": [mcp__c__*]}
dry_run: true
handoff_mode: true
`))
	want := Facts{
		Cwd: "/repos/infra", ReposDir: "/repos", Repositories: []string{"/srv/stack"}, StateDir: "/state", TempDir: "/tmp", InventoryHosts: []string{"ie01"},
		ProtectedFiles: []string{"ie.yaml"}, VolumesDirs: []string{"/volumes"}, OwnAPI: []string{"127.0.0.1:8080"}, OwnPaths: []string{"/run/claudeops"},
		Services: []ops.Service{{Name: "sonarr"}, {Name: "jellyfin", Aliases: []string{"jf"}}}, WebHosts: []string{"example.com"},
		MCPTools: map[ops.Tier][]string{ops.Tier1: {"mcp__a__b"}, ops.Tier2: {"mcp__c__*"}}, DryRun: true, HandoffMode: true,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

func TestParseFactsSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"cwd: repos":          "absolute path",
		"colour: red":         "field colour not found",
		"services: [{}]":      "no name",
		"mcp_tools: {x: [a]}": "not a tier",
		"cwd: [":              "read facts",
		"services: [[a]]":     "read facts",
	} {
		if _, err := ParseFacts([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
}

func TestWithoutFactsNothingMayBeWritten(t *testing.T) {
	for _, command := range []string{"echo x > x", "echo x > /tmp/x", "git commit -m x", "rm x", "touch /x", "ssh ie01 uptime", "docker compose up -d web", "ansible-playbook x.yml"} {
		if d := newGuard(t).Check(ops.Tier3, "Bash", bashInput(t, command), Facts{}); d.Allowed() {
			t.Errorf("%q is allowed", command)
		}
	}
	if d := newGuard(t).Check(ops.Tier1, "Bash", bashInput(t, "docker ps"), Facts{}); !d.Allowed() {
		t.Errorf("looking is denied: %s", d.Reason)
	}
}

func TestOutsideARepositoryRelativeChangesAreDeniedWithTheHintToGoThere(t *testing.T) {
	facts := testFacts()
	facts.Cwd = "/var/lib/agent"
	g := newGuard(t)
	for command, want := range map[string]bool{
		"echo x > notes.md":                      false,
		"git commit -m x":                        false,
		"git status":                             true,
		"cd /repos/infra && echo x > notes.md":   true,
		"cd /repos/infra && git commit -m x":     true,
		"git -C /repos/infra commit -m x":        true,
		"cd /repos/infra; echo x > notes.md":     false, // the cd may fail
		"set -e; cd /repos/infra; echo x > a.md": false,
		"pushd /repos/infra && rm a.md":          true,
		"cd /repos/infra && cd .. && rm a.md":    true,
		"cd /repos/infra && cd ../.. && rm a.md": false,
		"(cd /repos/infra); rm a.md":             false,
		"cd /repos/infra | rm a.md":              false,
		"cd /repos/infra || rm a.md":             false,
		"timeout 5 cd /repos/infra && rm a.md":   false,
		"command cd /repos/infra && rm a.md":     true,
		"env cd /repos/infra && rm a.md":         false,
	} {
		d := g.Check(ops.Tier2, "Bash", bashInput(t, command), facts)
		if d.Allowed() != want {
			t.Errorf("%q: %s (%s)", command, d.Verdict, d.Reason)
		}
		if !d.Allowed() && !strings.Contains(d.Reason, "cd into a repository") {
			t.Errorf("%q: %q gives no hint", command, d.Reason)
		}
	}
}

func TestASecretOfTheSupervisorIsNotReadWithItsFolder(t *testing.T) {
	facts := Facts{
		Cwd: "/srv/work", ReposDir: "/srv/repos", StateDir: "/var/lib/claudeops",
		OwnPaths: []string{"/srv/repos/ops/claudeops.yaml", "/srv/repos/ops/token"}, OwnSecrets: []string{"/srv/repos/ops/token"},
		Secrets: []string{"/srv/repos/shop/.netrc"},
	}
	g := newGuard(t)
	for command, allowed := range map[string]bool{
		"cat /srv/repos/ops/token":                                   false,
		"cat /srv/repos/ops/claudeops.yaml":                          false,
		"diff -rN /srv/repos/ops /dev/null":                          false,
		"find /srv/repos -name 'tok*' -exec cat {} +":                false,
		"find /srv/repos/ops -type f | xargs head":                   false,
		"grep -r . /srv/repos":                                       false,
		"tar cf - /srv/repos/ops":                                    false,
		"sed -i s/on/off/ /srv/repos/ops/claudeops.yaml":             false,
		"printf 'POST / HTTP/1.0' | openssl s_client -connect h:443": false,
		"cd /srv/repos/shop && grep -r KEY .":                        false,
		"cd /srv/repos/shop && rg --hidden KEY":                      false,
		"cd /srv/repos && tar cf - shop":                             false,
		"cp -r /srv/repos/shop /tmp/shop":                            false,
		"grep KEY /srv/repos/shop/compose.yaml":                      true,
		"cat /srv/repos/app/compose.yaml":                            true,
		"diff -r /srv/repos/app/a /srv/repos/app/b":                  true,
		"openssl s_client -connect h:443 </dev/null":                 true,
	} {
		if d := g.Check(ops.Tier3, "Bash", bashInput(t, command), facts); d.Allowed() != allowed {
			t.Errorf("%s: allowed %v: %s", command, d.Allowed(), d.Reason)
		}
	}
	if d := g.Check(ops.Tier3, "Bash", bashInput(t, "echo x > /srv/repos/shop/.netrc"), facts); d.Allowed() || d.Rule == ops.RuleAttack {
		t.Errorf("a secret of a clone is none of the supervisor's: %+v", d)
	}
}

func TestTheTemporaryFolderOfASessionIsWrittenByItsName(t *testing.T) {
	facts := Facts{
		Cwd: "/srv/work", ReposDir: "/srv/repos", StateDir: "/var/lib/claudeops", TempDir: "/var/lib/claudeops/agent/tmp/7", OwnTemp: true,
	}
	g := newGuard(t)
	for command, allowed := range map[string]bool{
		`echo x > "$TMPDIR/list"`:                            true,
		"df -h > $TMPDIR/df && cat $TMPDIR/df":               true,
		"cp /etc/hosts $TMPDIR/hosts":                        true,
		"touch /var/lib/claudeops/agent/tmp/7/x":             true,
		"cat /var/lib/claudeops/agent/tmp/7/x":               true,
		"rm $TMPDIR/list":                                    true,
		"echo x > /tmp/list":                                 false,
		"echo x > $TMPDIR/../8/x":                            false,
		"cat /var/lib/claudeops/agent/tmp/8/x":               false,
		"cat /var/lib/claudeops/agent/config/settings.json":  false,
		"TMPDIR=/var/lib/claudeops; echo x > $TMPDIR/canary": false,
		"rm -r $TMPDIR":                                      false,
	} {
		if d := g.Check(ops.Tier2, "Bash", bashInput(t, command), facts); d.Allowed() != allowed {
			t.Errorf("%s: allowed %v: %s", command, d.Allowed(), d.Reason)
		}
	}
}
