// Package claudeops holds the files of this repository that `claudeops init` writes for people who do not install a package. Packages and
// checkouts use the same files.
package claudeops

import _ "embed"

// Unit is the systemd unit of the packages.
//
//go:embed packaging/systemd/claudeops.service
var Unit string

// Compose is the compose file of the repository.
//
//go:embed compose.yaml
var Compose string
