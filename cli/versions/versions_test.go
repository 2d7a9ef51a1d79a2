package versions

import "testing"

func TestSkew(t *testing.T) {
	all := Compare([]Part{
		{What: CLI, Version: "v1.7.0"},
		{What: Agent, Cluster: "shanghai", Version: "v1.3.9"},
		{What: Agent, Cluster: "beijing", Version: "v1.5.0"},
		{What: Hub, Version: "v1.4.2"},
		{What: DNS, Cluster: "beijing", Version: "v1.5.1"},
		{What: DNS, Cluster: "beijing", Version: "v1.5.1"},
		{What: DNS, Cluster: "lyon", Version: "dev"},
		{What: Agent, Cluster: "old", Version: "v0.5.0"},
	})
	want := `PART          CLUSTER   VERSION
command line  -         v1.7.0   more than one minor version ahead of all others; use an older one, or upgrade them
hub process   -         v1.4.2
agent         beijing   v1.5.0
agent         old       v0.5.0   more than one minor version behind; upgrade it
agent         shanghai  v1.3.9   more than one minor version behind; upgrade it
DNS server    beijing   v1.5.1
DNS server    lyon      dev
`
	if got := Render(all, false); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if n := Skewed(all); n != 3 {
		t.Errorf("%d are skewed", n)
	}
}
