package connectivity

import "net/netip"

// Facts are what was seen in one cluster.
type Facts struct {
	// Cluster is its name in the set, Context the kubeconfig's name for it.
	Cluster, Context string
	Gone             bool
	Server, Client   Pod
	// Exports are the cluster's own, Imports those of all clusters, by name.
	Exports map[string]Export
	Imports map[string]Import
	// Routed has the clusters whose ClusterIPs, instead of pods, are behind this cluster's ClusterSetIPs.
	Routed map[string]bool
	// Endpoints has an address behind each imported service, by "name family", nil if that couldn't be read.
	Endpoints map[string]string
	// Reached has the clusters that this cluster's agent reaches.
	Reached map[string]bool
	// Answers are the client's, nil if there are none.
	Answers []Answer
}

// Pod is a pod of the test.
type Pod struct {
	Ready     bool
	Done      bool
	Why       string
	Addresses []string
}

// Export is the state of a ServiceExport.
type Export struct {
	// Seen is set once an agent has worked on it, Ready once the hub has it.
	Seen, Ready bool
	Message     string
}

// Import is the state of a ServiceImport.
type Import struct {
	There, Ready bool
	Message      string
	IPs          []string
	// Unaddressed is set if it has no ClusterSetIP and needs none, because the data path is none.
	Unaddressed bool
}

// addressOf returns the first address of a family, or "".
func addressOf(f Family, all []string) string {
	for _, s := range all {
		if a, err := netip.ParseAddr(s); err == nil && a.Unmap().Is4() == (f == IPv4) {
			return s
		}
	}
	return ""
}

// families returns the families that the pods of both clusters have.
func (f *Facts) families(of *Facts) (both []Family) {
	for _, family := range []Family{IPv4, IPv6} {
		if addressOf(family, f.Server.Addresses) != "" && addressOf(family, of.Server.Addresses) != "" {
			both = append(both, family)
		}
	}
	return both
}

// lacksEndpoints reports whether nothing is behind the import of a cluster's service, as far as that is known.
func (f *Facts) lacksEndpoints(of *Facts, family Family) bool {
	return f.Endpoints != nil && f.Endpoints[serviceOf(of.Cluster)+" "+family.String()] == ""
}

// waitsFor returns what isn't there yet before the questions can be asked.
func waitsFor(all []*Facts) (missing []string) {
	for _, f := range all {
		if !f.Server.Ready {
			missing = append(missing, f.Cluster+"'s server")
		}
		for _, name := range []string{serviceOf(f.Cluster), headlessOf(f.Cluster)} {
			if !f.Exports[name].Ready {
				missing = append(missing, f.Cluster+"'s export "+name)
			}
			for _, at := range all {
				if imp := at.Imports[name]; !imp.There || !imp.Ready || name == serviceOf(f.Cluster) && !imp.Unaddressed && len(imp.IPs) == 0 {
					missing = append(missing, f.Cluster+"'s "+name+" in "+at.Cluster)
				}
			}
		}
	}
	return missing
}
