#!/bin/sh
# Installs Claude Ops from the folder of a release, or removes it:
#
#   sh install.sh
#   sh install.sh --uninstall
#
# It finds out the system, downloads the package (deb, rpm, apk) or the archive for it, and installs it only if the signature of the
# checksums and the checksum of the file are right.
#
#   --url URL        the folder that holds SHA256SUMS, or the variable CLAUDEOPS_URL; by default the release that this script is from
#   --version V      refuse any other version, such as an older one that is signed too
#   --signers FILE   the keys that may have signed (allowed_signers of ssh-keygen), instead of the key in this script
#   --kind KIND      deb, rpm, apk or archive, instead of what the system has
#   --to FOLDER      where the program of an archive goes; /usr/local/bin by default
#   --download       check the file and leave it in the current folder; install nothing
#   --uninstall      remove the package or the program; configuration and state stay
#   --purge          with --uninstall: remove configuration, state and users too
set -eu

# The key of the release that this script is from. In a checkout there is none.
signers=
# The folder of that release.
address=

say() { printf 'install: %s\n' "$*"; }
die() {
  printf 'install: %s\n' "$*" >&2
  exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }
usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "$0"; }

# fetch URL FILE downloads the whole file or fails.
fetch() {
  if has curl; then
    curl --fail --silent --show-error --location --connect-timeout 20 --speed-limit 1 --speed-time 60 --output "$2" "$1"
  elif has wget; then
    wget --quiet --tries=1 --timeout=60 --output-document="$2" "$1"
  else
    die "curl or wget is needed to download; install one of them"
  fi
}

sum_of() {
  if has sha256sum; then
    sha256sum "$1" | cut -d' ' -f1
  elif has shasum; then
    shasum -a 256 "$1" | cut -d' ' -f1
  else
    die "sha256sum or shasum is needed to check the download; install coreutils"
  fi
}

# as_root runs a command that changes the system.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif has sudo; then
    sudo "$@"
  else
    die "this needs root: run it as root, or install sudo"
  fi
}

find_system() {
  case $(uname -s) in
    Linux) os=linux ;;
    Darwin) os=darwin ;;
    *) die "there is no program for $(uname -s), only for Linux and macOS" ;;
  esac
  case $(uname -m) in
    x86_64 | amd64) arch=amd64 rpm_arch=x86_64 ;;
    aarch64 | arm64) arch=arm64 rpm_arch=aarch64 ;;
    *) die "there is no program for $(uname -m), only for x86_64 (amd64) and aarch64 (arm64); build it from source" ;;
  esac
  [ -z "$kind" ] || return 0
  kind=archive
  if [ $os = linux ]; then
    if has dpkg && has apt-get; then
      kind=deb
    elif has rpm && { has dnf || has zypper || has yum; }; then
      kind=rpm
    elif has apk; then
      kind=apk
    fi
  fi
}

# check_signature refuses checksums that no known key has signed.
check_signature() {
  has ssh-keygen || die "ssh-keygen is needed to check the signature; install openssh-client (Debian, Ubuntu) or openssh (Fedora, SUSE: openssh-clients)"
  if [ -n "$signers_file" ]; then
    cp "$signers_file" "$work/allowed_signers" || die "the file of --signers cannot be read"
  elif [ -n "$signers" ]; then
    printf '%s\n' "$signers" >"$work/allowed_signers"
  else
    die "this script knows no key: use the install.sh of a signed release, or give the keys with --signers FILE"
  fi
  fetch "$url/SHA256SUMS.sig" "$work/SHA256SUMS.sig" || die "the release has no signature (SHA256SUMS.sig); nothing is installed"
  said=$(ssh-keygen -Y verify -f "$work/allowed_signers" -I claudeops -n file -s "$work/SHA256SUMS.sig" <"$work/SHA256SUMS" 2>&1) ||
    die "the signature of the checksums is wrong; nothing is installed. $said"
  say "$said"
}

# choose finds the one file for this system in the checksums.
choose() {
  case $kind in
    deb) pattern="claudeops_[^_/]*_$arch\\.deb" ;;
    rpm) pattern="claudeops-[^/]*\\.$rpm_arch\\.rpm" ;;
    apk) pattern="claudeops-[^/]*\\.$rpm_arch\\.apk" ;;
    archive) pattern="claudeops_[^_/]*_${os}_$arch\\.tar\\.gz" ;;
    *) die "there is no kind $kind, only deb, rpm, apk and archive" ;;
  esac
  file=$(sed -n "s/^[0-9a-f]\\{64\\} [ *]\\($pattern\\)\$/\\1/p" "$work/SHA256SUMS")
  [ -n "$file" ] || die "the release has no $kind for $os/$arch"
  [ "$(printf '%s\n' "$file" | wc -l)" -eq 1 ] || die "the release has more than one $kind for $os/$arch: $file"
  case $file in
    claudeops[_-]"${version:-}"[_+~-]*) ;;
    *) [ -z "$version" ] || die "the release is not version $version: it has $file" ;;
  esac
}

check_sum() {
  want=$(sed -n "s/^\\([0-9a-f]\\{64\\}\\) [ *]$file\$/\\1/p" "$work/SHA256SUMS")
  got=$(sum_of "$work/$file")
  [ "$got" = "$want" ] || die "the checksum of $file is wrong (it is $got, the release says $want); nothing is installed"
  say "$file has the right checksum"
}

install_file() {
  case $kind in
    deb) as_root apt-get install -y "$work/$file" ;;
    rpm)
      if has dnf; then
        as_root dnf install -y "$work/$file"
      elif has zypper; then
        as_root zypper --non-interactive install --allow-unsigned-rpm "$work/$file" # the checksum is what was signed
      elif has yum; then
        as_root yum install -y "$work/$file"
      else
        as_root rpm -U "$work/$file"
      fi
      ;;
    apk)
      as_root apk add --allow-untrusted "$work/$file" # the checksum is what was signed
      say "installed; next: sudo rc-update add claudeops && sudo rc-service claudeops start && sudo claudeops open"
      return
      ;;
    archive)
      tar -xzf "$work/$file" -C "$work"
      as_root mkdir -p "$to"
      # A rename, so that a running program is replaced as a whole.
      as_root cp "$work/${file%.tar.gz}/claudeops" "$to/.claudeops.new"
      as_root chmod 755 "$to/.claudeops.new"
      as_root mv "$to/.claudeops.new" "$to/claudeops"
      say "the program is $to/claudeops; \`claudeops init --service systemd\` writes a unit for it"
      return
      ;;
  esac
  say "installed; next: sudo systemctl enable --now claudeops && sudo claudeops open"
}

# uninstall removes what one of the ways above has installed.
uninstall() {
  if has dpkg-query && dpkg-query --show claudeops >/dev/null 2>&1; then
    as_root apt-get "${purge:-remove}" -y claudeops
  elif has rpm && rpm --query claudeops >/dev/null 2>&1; then
    as_root rpm --erase claudeops
  elif has apk && apk info --installed claudeops >/dev/null 2>&1; then
    as_root apk del claudeops
  else
    if has systemctl && [ -e "$units/claudeops.service" ]; then
      as_root systemctl disable --now claudeops.service
      as_root rm -f "$units/claudeops.service"
      as_root systemctl daemon-reload
    fi
    [ -e "$to/claudeops" ] || say "there is no $to/claudeops; --to names another folder"
    as_root rm -f "$to/claudeops"
  fi
  if [ -z "$purge" ]; then
    say "removed; configuration and state stay where they are (--uninstall --purge removes them too)"
    return
  fi
  # The package of Debian has done this by itself.
  as_root rm -rf /etc/claudeops /var/lib/claudeops /etc/sysusers.d/claudeops.conf /etc/tmpfiles.d/claudeops.conf
  for user in claudeops-agent claudeops; do
    ! id "$user" >/dev/null 2>&1 || as_root userdel "$user" 2>/dev/null || as_root deluser "$user" || say "the user $user is left"
  done
  say "removed, with configuration and state. What a person's own daemon kept is in ~/.local/state/claudeops"
}

main() {
  url=${CLAUDEOPS_URL:-$address} version='' signers_file='' kind='' to=/usr/local/bin download='' uninstall='' purge='' units=/etc/systemd/system
  while [ $# -gt 0 ]; do
    case $1 in
      --url | --version | --signers | --kind | --to) [ $# -ge 2 ] || die "$1 needs a value" ;;
    esac
    case $1 in
      --url) url=$2; shift ;;
      --version) version=${2#v}; shift ;;
      --signers) signers_file=$2; shift ;;
      --kind) kind=$2; shift ;;
      --to) to=$2; shift ;;
      --download) download=yes ;;
      --uninstall) uninstall=yes ;;
      --purge) purge=purge ;;
      --help | -h) usage; exit 0 ;;
      *) die "there is no option $1; --help lists them" ;;
    esac
    shift
  done
  if [ -n "$uninstall" ]; then
    uninstall
    return
  fi
  [ -z "$purge" ] || die "--purge needs --uninstall"
  [ -n "$url" ] || die "say where the release is: --url URL, or the variable CLAUDEOPS_URL"
  url=${url%/}
  find_system
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  trap 'exit 1' HUP INT TERM
  chmod 755 "$work" # apt reads the package as another user
  fetch "$url/SHA256SUMS" "$work/SHA256SUMS" || die "the checksums (SHA256SUMS) cannot be downloaded from $url; nothing is installed"
  check_signature
  choose
  say "downloading $file"
  fetch "$url/$file" "$work/$file" || die "the download of $file failed or was interrupted; nothing is installed"
  check_sum
  if [ -n "$download" ]; then
    cp "$work/$file" "./$file"
    say "it is in ./$file"
    return
  fi
  install_file
}

# On the last line, so that a script that was cut off while it was downloaded does nothing.
main "$@"
