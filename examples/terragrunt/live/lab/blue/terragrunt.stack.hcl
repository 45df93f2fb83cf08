unit "web" {
  source = "../../../catalog/units/vm"
  path   = "web"
  values = {
    name    = "lab-blue-web"
    tags    = ["web", "blue"]
    address = "10.0.0.61/24"
  }
}

unit "balancer" {
  source = "../../../catalog/units/balancer"
  path   = "balancer"
  values = {
    name    = "lab-blue-balancer"
    address = "10.0.0.62/24"
    web     = "../web"
  }
}
