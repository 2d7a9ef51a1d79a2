class Clusterset < Formula
  desc "See and change a set of Kubernetes clusters that share services"
  homepage "https://github.com/clusterset/clusterset"
  version "1.2.3"
  license "Apache-2.0"

  if OS.linux? && Hardware::CPU.intel?
    url "https://github.com/clusterset/clusterset/releases/download/v1.2.3/clusterset-linux-amd64.tar.gz"
    sha256 "sum of clusterset-linux-amd64.tar.gz"
  end

  if OS.linux? && Hardware::CPU.arm?
    url "https://github.com/clusterset/clusterset/releases/download/v1.2.3/clusterset-linux-arm64.tar.gz"
    sha256 "sum of clusterset-linux-arm64.tar.gz"
  end

  if OS.mac? && Hardware::CPU.intel?
    url "https://github.com/clusterset/clusterset/releases/download/v1.2.3/clusterset-darwin-amd64.tar.gz"
    sha256 "sum of clusterset-darwin-amd64.tar.gz"
  end

  if OS.mac? && Hardware::CPU.arm?
    url "https://github.com/clusterset/clusterset/releases/download/v1.2.3/clusterset-darwin-arm64.tar.gz"
    sha256 "sum of clusterset-darwin-arm64.tar.gz"
  end

  def install
    bin.install "clusterset"
    generate_completions_from_executable(bin/"clusterset", "completion")
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/clusterset version")
  end
end
