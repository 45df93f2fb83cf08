unit "web" {
  source = "../../../catalog/units/vm"
  path   = "web"
  values = {
    name    = "edge-blue-web"
    tags    = ["web", "blue"]
    address = "10.1.0.61/24"
  }
}

unit "balancer" {
  source = "../../../catalog/units/balancer"
  path   = "balancer"
  values = {
    name    = "edge-blue-balancer"
    address = "10.1.0.62/24"
    web     = "../web"
  }
}
