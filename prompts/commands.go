package prompts

import (
	"strings"

	"claudeops/internal/ops"
)

// Diagnose lists one command for each thing worth a look on this host, made for its first services.
func (d Data) Diagnose() []Command {
	var out []Command
	add := func(what, command string) {
		for _, c := range out {
			if c.What == what {
				return // one example each
			}
		}
		out = append(out, Command{what, command})
	}
	for _, s := range d.Services {
		if s.URL != "" {
			add("does it answer", "curl -sS -m 10 -o /dev/null -w '%{http_code} %{time_total}' "+s.URL)
		}
		if s.Container != "" {
			add("container", "docker ps -a --filter name="+s.Container)
			add("container log", "docker logs --tail 100 "+s.Container)
		}
		if s.Unit != "" {
			add("unit", "systemctl status --no-pager "+s.Unit)
			add("unit log", "journalctl --no-pager -n 100 -u "+s.Unit)
		}
		if strings.HasPrefix(s.URL, "https://") {
			add("certificate", "curl -sS -m 10 -v -o /dev/null "+s.URL)
		}
		if s.Host != "" {
			add("name resolution", "getent hosts "+s.Host)
		}
	}
	add("disk", "df -h")
	add("memory", "free -m")
	add("processes", "ps aux --sort=-%cpu")
	add("listening ports", "ss -ltn")
	if len(d.Repos) > 0 {
		add("recent changes", "git -C "+d.Repo()+" log --oneline -n 5")
	}
	return out
}

// Repairs lists what the session may do to repair, as commands for its first service.
func (d Data) Repairs() []Command {
	if d.ReadOnly() {
		return nil
	}
	name, container, unit := "web", "", ""
	for i, s := range d.Services {
		if i == 0 {
			name = s.Name
		}
		if container == "" {
			container = s.Container
		}
		if unit == "" {
			unit = s.Unit
		}
	}
	var out []Command
	addIf := func(program, what, command string) {
		if d.Has != nil && d.Has(program) {
			out = append(out, Command{what, command})
		}
	}
	if container != "" {
		out = append(out, Command{"restart a container", "docker restart " + container})
	}
	if unit != "" && d.May >= ops.Tier3 {
		out = append(out, Command{"restart a unit", "systemctl restart " + unit})
	}
	if len(d.Repos) > 0 {
		in := "cd " + d.Repo() + " && "
		out = append(out,
			Command{"change files there (Write and Edit), commit", in + "git commit -am 'Fix " + name + "'"},
			Command{"push a branch", in + "git push origin HEAD:refs/heads/fix-" + name},
			Command{"open a pull request", in + "gh pr create --fill"},
		)
		addIf("tea", "open a pull request on Gitea or Forgejo", in+"tea pr create --title 'Fix "+name+"'")
		if d.May >= ops.Tier3 {
			out = append(out,
				Command{"run the playbook of a service", in + "ansible-playbook playbooks/" + name + ".yml"},
				Command{"roll a Helm release back", "helm rollback " + name},
			)
			addIf("helm", "upgrade a Helm release to the chart of a repository", in+"helm upgrade "+name+" charts/"+name)
		}
	}
	addIf("apprise", "tell people how it ended, at an address that the operator names", "apprise -t '"+name+"' -b 'It works again' ADDRESS")
	return out
}
