include "root" {
  path = find_in_parent_folders("root.hcl")
}

terraform {
  source = "../../../catalog//vm"
}

inputs = {
  name    = "web-2"
  tags    = ["web"]
  address = "10.0.0.52/24"
}
