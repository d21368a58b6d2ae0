class Claudeops < Formula
  desc "Watch services and repair failures, with agents in escalating tiers"
  homepage "@HOMEPAGE@"
  version "@VERSION@"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "@RELEASES@/v@VERSION@/claudeops_@VERSION@_darwin_arm64.tar.gz"
      sha256 "@SHA256_darwin_arm64@"
    end
    on_intel do
      url "@RELEASES@/v@VERSION@/claudeops_@VERSION@_darwin_amd64.tar.gz"
      sha256 "@SHA256_darwin_amd64@"
    end
  end

  on_linux do
    on_arm do
      url "@RELEASES@/v@VERSION@/claudeops_@VERSION@_linux_arm64.tar.gz"
      sha256 "@SHA256_linux_arm64@"
    end
    on_intel do
      url "@RELEASES@/v@VERSION@/claudeops_@VERSION@_linux_amd64.tar.gz"
      sha256 "@SHA256_linux_amd64@"
    end
  end

  def install
    bin.install "claudeops"
    man1.install Dir["man/*.1.gz"]
    bash_completion.install "completions/claudeops.bash" => "claudeops"
    zsh_completion.install "completions/_claudeops"
    fish_completion.install "completions/claudeops.fish"
  end

  def caveats
    "The daemon runs on Linux. On macOS every command works against one: claudeops --server URL status"
  end

  test do
    assert_match "claudeops #{version} ", shell_output("#{bin}/claudeops --version")
  end
end
