package demo

// Rules are the guard rules of the demo: agents may look with the program of its service. To change something, they ask the supervisor.
const Rules = `# Written by claudeops demo: operator rules for a program that the guard does not know.
rules:
  - id: mediabox-get
    program: mediaboxctl
    args: [get, "*"]
    tier: 1
    reason: Reading from mediabox changes nothing.
    match: [mediaboxctl get /health]
    not_match: [mediaboxctl redeploy, mediaboxctl get]
  - id: mediabox-status
    program: mediaboxctl
    args: [status]
    tier: 1
    reason: Every tier may read the status.
    match: [mediaboxctl status]
    not_match: [mediaboxctl restart]
  - id: mediabox-log
    program: mediaboxctl
    args: [log]
    tier: 1
    reason: Every tier may read the log.
    match: [mediaboxctl log]
    not_match: [mediaboxctl redeploy]
  - id: mediabox-config
    program: mediaboxctl
    args: [config]
    tier: 1
    reason: Every tier may read the configuration.
    match: [mediaboxctl config]
    not_match: [mediaboxctl break]
  - id: mediabox-break
    program: mediaboxctl
    args: [break]
    deny: true
    reason: Agents repair mediabox, they do not break it.
    match: [mediaboxctl break]
    not_match: [mediaboxctl status]
`
